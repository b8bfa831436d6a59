//go:build faults

package cluster

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/raft-wal/fs"

	"lockd/resp/fault"
)

// The fault points that a process of appendUntilKilled comes to.
var storePoints = []string{
	fault.LogWrite, fault.LogWritten, fault.LogSync, fault.LogSynced, fault.LogTrim, fault.LogTrimmed,
	fault.VoteWrite, fault.VoteTorn, fault.VoteWritten,
	fault.SnapshotWrite, fault.SnapshotRename, fault.SnapshotRenamed,
}

// Wherever the process dies, and whatever it leaves of what was not synced, its
// folder opens again with every entry and every vote that was acknowledged.
func TestFaultCrash(t *testing.T) {
	if dir := os.Getenv(crashDirEnv); dir != "" {
		appendUntilKilled(dir, os.Getenv(crashDirEnv+"_KIND"))
		return
	}
	for _, kind := range []string{logStoreWAL, logStoreBoltDB} {
		for _, act := range []string{"kill", dieDrop, dieTear} {
			t.Run(kind+"/"+act, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "data")
				for _, point := range storePoints {
					acked := crashAt(t, dir, kind, fmt.Sprintf("arm %s %s 0 %d", point, act, rand.IntN(40)))
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

// A node starts over whatever a death at any point has left, with every write that
// it acknowledged.
func TestFaultNode(t *testing.T) {
	if dir := os.Getenv(crashDirEnv); dir != "" {
		countUntilKilled(dir)
		return
	}
	dir := filepath.Join(t.TempDir(), "data")
	for _, act := range []string{"kill", dieDrop, dieTear} {
		for _, point := range []string{fault.LogWritten, fault.LogSynced, fault.SnapshotRenamed, fault.LogTrim, fault.Propose, fault.Applied} {
			acked := crashAt(t, dir, "", fmt.Sprintf("arm %s %s 0 %d", point, act, rand.IntN(20)))
			if got := counted(t, dir); got < acked {
				t.Errorf("%s at %s: %d was acknowledged, %d is there", act, point, acked, got)
			}
		}
	}
}

// A log that is never synced loses what it has acknowledged, and the node starts
// all the same: only its clients can tell.
func TestFaultUnsyncedLog(t *testing.T) {
	if dir := os.Getenv(crashDirEnv); dir != "" {
		lyingDisk = true
		countUntilKilled(dir)
		return
	}
	dir := filepath.Join(t.TempDir(), "data")
	crashAt(t, dir, "", "arm applied kill")
	acked := crashAt(t, dir, "", "arm log.synced drop 0 60")
	if got := counted(t, dir); acked == 0 || got >= acked {
		t.Errorf("%d was acknowledged, %d is there", acked, got)
	}
}

// startCounter starts a node alone on a data folder.
func startCounter(dir string) (*Node, error) {
	return Open(Config{
		ID: "n1", Dir: dir, PeerListen: "127.0.0.1:0", Machine: newTestMachine(), Publisher: &testPublisher{},
		Heartbeat: 20 * time.Millisecond, SnapshotEntries: 10, LeaderWait: 10 * time.Second,
		Log:   slog.New(slog.DiscardHandler),
		Fatal: func(err error) { fmt.Println("failed:", err); os.Exit(1) },
	})
}

// count adds one to a counter of the node and returns it.
func count(n *Node) (c uint64, err error) {
	reply := (&testNode{Node: n}).do("INCR c")
	if _, err := fmt.Sscanf(reply, ":%d", &c); err != nil {
		return 0, errors.New(reply)
	}
	return c, nil
}

// countUntilKilled is what the process that dies does: it counts.
func countUntilKilled(dir string) {
	err := fault.Serve()
	fmt.Println("started")
	var n *Node
	if err == nil {
		n, err = startCounter(dir)
	}
	for err == nil {
		var c uint64
		if c, err = count(n); err == nil {
			fmt.Printf("acked %d.\n", c)
		}
	}
	fmt.Println("failed:", err)
	os.Exit(1)
}

// counted is how far the counter of a data folder has come.
func counted(t *testing.T, dir string) uint64 {
	t.Helper()
	n, err := startCounter(dir)
	if err != nil {
		t.Fatal(err)
	}
	c, err := count(n)
	if err != nil {
		t.Error(err)
	}
	if err := n.Close(t.Context()); err != nil {
		t.Error(err)
	}
	return c - 1
}

// crashAt has a process of appendUntilKilled die by a command to its control port,
// and returns the last index that it acknowledged.
func crashAt(t *testing.T, dir, kind, command string) uint64 {
	t.Helper()
	addr := freeAddr(t)
	t.Setenv("LOCKD_FAULT_LISTEN", addr)
	return crashOnce(t, dir, kind, func(*os.Process) { control(t, addr, command) })
}

// control sends a command to a control port.
func control(t *testing.T, addr, command string) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintln(conn, command)
	if answer, err := bufio.NewReader(conn).ReadString('\n'); answer != "ok\n" {
		t.Fatalf("%s: %q, %v", command, answer, err)
	}
}

// What was synced stays; what was not is lost by a drop, and by a tear all but a part
// of the last write.
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
