//go:build faults

package store

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	boltstore "github.com/hashicorp/raft-boltdb/v2"
	"github.com/hashicorp/raft-wal/fs"

	"lockd/internal/crash"
	"lockd/resp/fault"
)

// The fault points that appendUntilKilled passes.
var storePoints = []string{
	fault.LogWrite, fault.LogWritten, fault.LogSync, fault.LogSynced, fault.LogTrim, fault.LogTrimmed,
	fault.VoteWrite, fault.VoteTorn, fault.VoteWritten,
	fault.SnapshotWrite, fault.SnapshotRename, fault.SnapshotRenamed,
}

// A folder opens again with every acknowledged entry and vote, wherever the process dies and whatever unsynced data
// survives.
func TestFaultCrash(t *testing.T) {
	if dir := os.Getenv(crash.DirEnv); dir != "" {
		appendUntilKilled(dir, os.Getenv(crash.KindEnv))
		return
	}
	for _, kind := range []string{WAL, BoltDB} {
		for _, act := range []string{"kill", dieDrop, dieTear} {
			t.Run(kind+"/"+act, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "data")
				for _, point := range storePoints {
					acked := crash.At(t, dir, kind, fmt.Sprintf("arm %s %s 0 %d", point, act, rand.IntN(40)))
					d, s, err := tryOpen(dir, kind)
					if err != nil {
						t.Fatalf("%s: after acknowledged entry %d: %v", point, acked, err)
					}
					if last, err := s.Log.LastIndex(); err != nil || last < acked {
						t.Fatalf("%s: entry %d was acknowledged, the log ends at %d, %v", point, acked, last, err)
					}
					if term, err := s.Stable.GetUint64([]byte(keyCurrentTerm)); acked > 0 && (err != nil || term < acked) {
						t.Fatalf("%s: term %d was acknowledged, the store has %d, %v", point, acked, term, err)
					}
					closeTestStores(t, d, s)
				}
			})
		}
	}
}

// Synced data stays; a drop loses unsynced data, and a tear all but a part of the last write.
func TestFaultLoss(t *testing.T) {
	const room = 100 // bytes that the file is made with; the last write goes beyond
	synced, second, last := bytes.Repeat([]byte("s"), 50), bytes.Repeat([]byte("m"), 40), bytes.Repeat([]byte("l"), 60)
	before := append(append([]byte{}, synced...), make([]byte, room-50)...)
	after := append(append(append([]byte{}, synced[:30]...), second...), last...)
	partly := 0
	for _, how := range []string{"kill", dieDrop, dieTear, dieTear, dieTear, dieTear, dieTear, dieTear, dieTear, dieTear} {
		dir := t.TempDir()
		l := newLossyFiles(fs.New())
		f, err := l.Create(dir, "log", room)
		if err != nil {
			t.Fatal(err)
		}
		write := func(b []byte, offset int64) {
			t.Helper()
			if _, err := f.WriteAt(b, offset); err != nil {
				t.Fatal(err)
			}
		}
		write(synced, 0)
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
		write(second, 30)
		write(last, 70)
		if _, err := l.Create(dir, "new", room); err != nil {
			t.Fatal(err)
		}
		if err := l.lose(how); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(dir, "log"))
		if err != nil {
			t.Fatal(err)
		}
		_, missing := os.Stat(filepath.Join(dir, "new"))
		if (missing != nil) != (how == dieDrop) {
			t.Errorf("%s: the file that was never synced: %v", how, missing)
		}
		switch how {
		case "kill":
			if !bytes.Equal(got, after) {
				t.Errorf("kill left %q", got)
			}
		case dieDrop:
			if !bytes.Equal(got, before) {
				t.Errorf("drop left %q", got)
			}
		default:
			if !bytes.HasPrefix(got, before[:70]) {
				t.Fatalf("tear left %q", got)
			}
			if kept := bytes.Count(got[70:], []byte("l")); kept > 0 && kept < len(last) {
				partly++
			}
		}
	}
	if partly == 0 {
		t.Error("no write was torn")
	}
}

// Votes that bbolt does not sync are lost with the power, and those that it syncs are not.
func TestFaultVotesLoss(t *testing.T) {
	for _, how := range []string{"kill", dieDrop, dieTear} {
		for _, synced := range []bool{true, false} {
			opts := boltOptions(filepath.Join(t.TempDir(), votesFile))
			opts.NoSync = !synced
			bolt, err := boltstore.New(opts)
			if err != nil {
				t.Fatal(err)
			}
			v := faultyVotes(bolt, opts).(*lossyVotes)
			for n := range uint64(5) {
				if err := v.SetUint64([]byte("vote"), n+1); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(v.lose(how), bolt.Close()); err != nil {
				t.Fatal(err)
			}
			again, err := openBolt(opts.Path)
			if err != nil {
				t.Fatal(err)
			}
			vote, err := again.GetUint64([]byte("vote"))
			switch lost := vote < 5; {
			case err != nil && err.Error() != keyNotFound:
				t.Error(err)
			case lost != (!synced && how != "kill"), how == dieDrop && !synced && vote > 0:
				t.Errorf("%s, synced %v: the vote is %d of 5", how, synced, vote)
			}
			_ = again.Close()
		}
	}
}

// A disk that lies loses the snapshots of the last seconds with the power, or parts of them.
func TestFaultSnapshotsLoss(t *testing.T) {
	defer func() { LyingSnapshots = false }()
	for _, how := range []string{"kill", dieDrop, dieTear} {
		for _, LyingSnapshots = range []bool{false, true} {
			dir := t.TempDir()
			snaps, err := raft.NewFileSnapshotStoreWithLogger(dir, SnapshotsKept, hclog.NewNullLogger())
			if err != nil {
				t.Fatal(err)
			}
			lossy := faultySnapshots(snaps, filepath.Join(dir, snapshotFolder)).(snapshotPoints)
			sink, err := lossy.Create(1, 1, 1, raft.Configuration{}, 0, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := sink.Write(bytes.Repeat([]byte("x"), 100)); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(sink.Close(), lossy.lost.lose(how)); err != nil {
				t.Fatal(err)
			}
			_, in, err := snaps.Open(sink.ID())
			if err == nil {
				err = in.Close()
			}
			if lost := LyingSnapshots && how == dieDrop; (err != nil) != lost && how != dieTear {
				t.Errorf("%s, lying %v: %v", how, LyingSnapshots, err)
			}
		}
	}
}
