//go:build faults

package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"lockd/cluster/store"
	"lockd/internal/crash"
	"lockd/resp/fault"
)

// A node starts over whatever a death at any point has left, with every write that
// it acknowledged.
func TestFaultNode(t *testing.T) {
	if dir := os.Getenv(crash.DirEnv); dir != "" {
		countUntilKilled(dir)
		return
	}
	dir := filepath.Join(t.TempDir(), "data")
	for _, act := range []string{"kill", "drop", "tear"} {
		for _, point := range []string{fault.LogWritten, fault.LogSynced, fault.SnapshotRenamed, fault.LogTrim, fault.Propose, fault.Applied} {
			acked := crash.At(t, dir, "", fmt.Sprintf("arm %s %s 0 %d", point, act, rand.IntN(20)))
			if got := counted(t, dir); got < acked {
				t.Errorf("%s at %s: %d was acknowledged, %d is there", act, point, acked, got)
			}
		}
	}
}

// A log that is never synced loses what it has acknowledged, and the node starts
// all the same: only its clients can tell.
func TestFaultUnsyncedLog(t *testing.T) {
	// A log is trimmed after a snapshot, and its list of files does not lie: that the log begins
	// later than all that is left of it would be remembered. So there is none.
	defer func(was uint64) { counterSnapshots = was }(counterSnapshots)
	counterSnapshots = 1 << 40
	if dir := os.Getenv(crash.DirEnv); dir != "" {
		store.LyingDisk = true
		countUntilKilled(dir)
		return
	}
	dir := filepath.Join(t.TempDir(), "data")
	crash.At(t, dir, "", "arm applied kill")
	acked := crash.At(t, dir, "", "arm log.synced drop 0 60")
	if got := counted(t, dir); acked == 0 || got >= acked {
		t.Errorf("%d was acknowledged, %d is there", acked, got)
	}
}

// counterSnapshots is after how many entries a counter's node takes a snapshot.
var counterSnapshots uint64 = 10

// startCounter starts a node alone on a data folder.
func startCounter(dir string) (*Node, error) {
	return Open(Config{
		ID: "n1", Dir: dir, PeerListen: "127.0.0.1:0", Machine: newTestMachine(), Publisher: &testPublisher{},
		Heartbeat: 20 * time.Millisecond, SnapshotEntries: counterSnapshots, LeaderWait: 10 * time.Second,
		Log:   slog.New(slog.DiscardHandler),
		Fatal: func(err error) { fmt.Println("failed:", err); os.Exit(1) },
	})
}

// count adds one to a counter of the node and returns it.
func count(n *Node) (c uint64, err error) {
	reply := (&testNode{Node: n, ctx: context.Background()}).do("INCR c")
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
