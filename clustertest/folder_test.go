package clustertest

import (
	"bytes"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// A folder that is written of a disk has what the disk has, and so has a disk that is read from the folder.
func TestFoldersHoldWhatDisksHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWorld(t, 1)
		for range 3 {
			say(w, "n2", "SET", "k", "v")
			say(w, "n2", "LOCKD", "SNAPSHOT")
		}
		say(w, "n2", "SET", "k", "last")
		if err := w.Kill("n2"); err != nil {
			t.Fatal(err)
		}
		d, dir := w.Disk("n2"), filepath.Join(t.TempDir(), "n2")
		if err := d.WriteFolder(dir); err != nil {
			t.Fatal(err)
		}
		read, err := w.ReadFolder(dir)
		if err != nil {
			t.Fatal(err)
		}
		if read.node != "n2" || read.name == "" {
			t.Errorf("it is the disk %q of %q", read.name, read.node)
		}
		same := func(a, b *raft.Log) bool {
			return a.Index == b.Index && a.Term == b.Term && a.Type == b.Type && bytes.Equal(a.Data, b.Data) &&
				bytes.Equal(a.Extensions, b.Extensions)
		}
		if was, is := d.stores.log.content.entries, read.stores.log.content.entries; len(was) == 0 ||
			!slices.EqualFunc(was, is, same) {
			t.Errorf("it has %d entries of %d, or others", len(is), len(was))
		}
		if was, is := d.stores.votes.content, read.stores.votes.content; len(was) == 0 ||
			!maps.EqualFunc(was, is, bytes.Equal) {
			t.Errorf("it has the votes %q, not %q", is, was)
		}
		alike := func(a, b snapshot) bool {
			return a.meta.Index == b.meta.Index && a.meta.Term == b.meta.Term && bytes.Equal(a.image, b.image)
		}
		if was, is := d.stores.snapshots.content, read.stores.snapshots.content; len(was) < 2 ||
			!slices.EqualFunc(was, is, alike) {
			t.Errorf("it has %d snapshots of %d, or others", len(is), len(was))
		}
	})
}

// A copy of a disk from before the last start is found out by the nodes that have met the node since, even if they have
// started again. One from after it is as good as the disk.
func TestCopiesOfDisks(t *testing.T) {
	for old, says := range map[bool]string{true: "runs on a copy of its data folder", false: ""} {
		synctest.Test(t, func(t *testing.T) {
			w := startWorld(t, 1)
			begin := func() {
				_ = w.Start("n2")       // World.Why tells
				time.Sleep(time.Second) // the others meet it
			}
			end := func() {
				if err := w.Kill("n2"); err != nil {
					t.Error(err)
				}
			}
			end()
			copied := w.Disk("n2").Copy()
			begin()
			say(w, "n2", "SET", "k", "v")
			end()
			if !old {
				copied = w.Disk("n2").Copy()
			}
			w.Disk("n2").CopyFrom(copied)
			for _, id := range []string{"n1", "n3"} {
				if err := errors.Join(w.Kill(id), w.Start(id)); err != nil {
					t.Error(err)
				}
			}
			begin()
			why := ""
			if err := w.Why("n2"); err != nil {
				why = err.Error()
			}
			if (why == "") != (says == "") || !strings.Contains(why, says) {
				t.Errorf("old %v: it has ended itself: %q", old, why)
			}
			if !old && say(w, "n2", "GET", "k") != `"v"` {
				t.Error("the copy lacks a write")
			}
		})
	}
}

// A removed snapshot is gone, and the node goes back to the one before.
func TestRemoveSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWorld(t, 1)
		for range 3 {
			say(w, "n2", "SET", "k", "v")
			say(w, "n2", "LOCKD", "SNAPSHOT")
		}
		if err := w.Kill("n2"); err != nil {
			t.Fatal(err)
		}
		d := w.Disk("n2")
		before := d.Snapshots()
		if len(before) != 2 {
			t.Fatalf("snapshots: %q", before)
		}
		if d.RemoveSnapshot(before[1]); !slices.Equal(d.Snapshots(), before[:1]) {
			t.Errorf("snapshots: %q, without %s: %q", before, before[1], d.Snapshots())
		}
		if err := w.Start("n2"); err != nil || say(w, "n2", "GET", "k") != `"v"` {
			t.Errorf("it does not start, or lacks a write: %v", err)
		}
	})
}
