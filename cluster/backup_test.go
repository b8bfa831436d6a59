package cluster

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/membership"
	"lockd/cluster/record"
	"lockd/cluster/refound"
	"lockd/cluster/replica"
	"lockd/cluster/snapshot"
	"lockd/cluster/store"
	"lockd/resp"
)

// testForkable is a testMachine that can go on in a new cluster. It knows every command.
type testForkable struct {
	*testMachine
	fence  uint64
	holdMs int64
	wall   int64
}

func newTestForkable() *testForkable { return &testForkable{testMachine: newTestMachine()} }

var anySpec = &resp.Spec{Name: "any", Arity: -1, Flags: resp.Write}

func (m *testForkable) Find(args resp.Args) (*resp.Spec, resp.Reply) {
	if spec, fail := m.testMachine.Find(args); spec != nil {
		return spec, fail
	}
	return anySpec, resp.Reply{}
}

func (m *testForkable) Apply(at resp.Stamp, reqs []resp.Request) ([]resp.Result, []resp.Message) {
	m.wall = at.Wall
	var known []resp.Request
	for _, req := range reqs {
		if len(req.Cmds) == 1 {
			if spec, _ := m.testMachine.Find(req.Cmds[0].Args); spec != nil {
				known = append(known, req)
			}
		}
	}
	m.testMachine.Apply(at, known)
	return make([]resp.Result, len(reqs)), nil
}

func (m *testForkable) Wall() int64 { return m.wall }

func (m *testForkable) Totals() (keys int, lastFence uint64) {
	return len(m.vars), max(m.fence, m.index)
}

func (m *testForkable) Fork(fence uint64, holdMs int64) {
	m.fence, m.holdMs = fence, holdMs
}

// reply runs one command and returns its reply.
func (n *testNode) reply(args ...string) resp.Reply {
	return n.Do(context.Background(), resp.Request{Cmds: []resp.Cmd{{Args: args}}}).Replies[0]
}

// readBackup reads a whole backup of a node, as the program does.
func (n *testNode) readBackup(t *testing.T, between func()) []byte {
	t.Helper()
	r := n.reply("LOCKD", "BACKUP")
	if len(r.Elems) != 2 {
		t.Fatalf("LOCKD BACKUP answers %q", r.Str)
	}
	var all []byte
	for {
		piece := n.reply("LOCKD", "BACKUP", r.Elems[0].Str, strconv.Itoa(len(all)))
		switch {
		case piece.Kind != resp.KindBulk:
			t.Fatalf("at %d: %q", len(all), piece.Str)
		case piece.Str == "":
			return all
		}
		all = append(all, piece.Str...)
		between()
	}
}

// A backup of any node holds what was acknowledged before it began, by whichever node, and nothing of what is written
// while it is read.
func TestBackup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		leader := c.leader()
		large := strings.Repeat("x", 300<<10)
		for i := range 8 {
			c.expect(leader, fmt.Sprintf("SET large%d %s", i, large), "+OK")
		}
		for i, n := range append(c.others(leader), leader) {
			for j, writer := range append(c.others(leader), leader) {
				c.expect(writer, fmt.Sprintf("SET k%d%d v", i, j), "+OK")
			}
			pieces := 0
			file := n.readBackup(t, func() {
				pieces++
				c.expect(leader, fmt.Sprintf("SET later%d%d v", i, pieces), "+OK")
			})
			if pieces < 5 {
				t.Errorf("%d pieces: the test proves nothing", pieces)
			}
			path := filepath.Join(t.TempDir(), "backup")
			if err := os.WriteFile(path, file, 0o600); err != nil {
				t.Fatal(err)
			}
			machine := newTestForkable()
			head, err := refound.ReadBackup(path, machine)
			if err != nil {
				t.Fatal(err)
			}
			if head.Node != n.id || head.Cluster == "" || head.Cluster != n.members.roster.Load().Cluster {
				t.Errorf("%+v", head)
			}
			for j := range 3 {
				if _, there := machine.vars[fmt.Sprintf("k%d%d", i, j)]; !there {
					t.Errorf("backup of %s: what node %d wrote before is missing", n.id, j)
				}
			}
			if _, there := machine.vars[fmt.Sprintf("later%d%d", i, 1)]; there {
				t.Error("what was written later is in it")
			}
		}
	})
}

// A node that is cut off makes no backup, and one that is not read is given up.
func TestBackupLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		leader := c.leader()
		c.expect(leader, "SET k v", "+OK")
		first := leader.reply("LOCKD", "BACKUP").Elems[0].Str
		leader.reply("LOCKD", "BACKUP")
		if r := leader.reply("LOCKD", "BACKUP"); !strings.Contains(r.Str, "are being read already") {
			t.Errorf("a third backup: %q", r.Str)
		}
		if r := leader.reply("LOCKD", "BACKUP", first, "1"); !strings.Contains(r.Str, "is read up to 0") {
			t.Errorf("a wrong offset: %q", r.Str)
		}
		if r := leader.reply("LOCKD", "BACKUP", first, "x"); !r.IsErr() {
			t.Error("an offset that is none")
		}
		if r := leader.reply("LOCKD", "BACKUP", first); r.Str != resp.WrongArity("lockd|backup").Str {
			t.Errorf("no offset: %q", r.Str)
		}
		time.Sleep(snapshot.BackupIdleMax + time.Second)
		if r := leader.reply("LOCKD", "BACKUP", first, "0"); !strings.Contains(r.Str, "no such backup") {
			t.Errorf("after half a minute: %q", r.Str)
		}
		leader.readBackup(t, func() {})
		one := c.others(leader)[0]
		c.cut(one)
		time.Sleep(5 * time.Second)
		if r := one.reply("LOCKD", "BACKUP"); !r.IsErr() || strings.HasPrefix(r.Str, "ERR") {
			t.Errorf("cut off: %q", r.Str)
		}
	})
}

// testBackup is a small backup.
func testBackup(t *testing.T, machine *testMachine) []byte {
	t.Helper()
	var b bytes.Buffer
	i := &replica.Image{Applied: 42, Roster: sampleRoster(), Write: machine.Snapshot()}
	head := refound.BackupHead{
		Version: "1", Cluster: i.Roster.Cluster, Node: "n1", Index: 42,
		MadeMs: refound.FenceEpoch + 1000,
	}
	if err := refound.WriteBackup(&b, head, i); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A backup of which a single bit has changed, that ends early or goes on, is refused.
func TestDamagedBackupIsRefused(t *testing.T) {
	machine := newTestMachine()
	machine.vars["k"] = testVar{Value: "v"}
	good, path := testBackup(t, machine), filepath.Join(t.TempDir(), "backup")
	try := func(file []byte) error {
		t.Helper()
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := refound.ReadBackup(path, newTestForkable())
		sum := &refound.BackupSum{}
		for i := range file { // however it comes
			_, _ = sum.Write(file[i : i+1])
		}
		if (sum.Check() == nil) != (err == nil) && !errors.Is(err, refound.ErrBackup) {
			t.Errorf("its sum says %v, its reader %v", sum.Check(), err)
		}
		return err
	}
	if err := try(good); err != nil {
		t.Fatal(err)
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1 << (i % 8)
		if try(bad) == nil {
			t.Errorf("byte %d", i)
		}
		if try(good[:i]) == nil {
			t.Errorf("cut at %d", i)
		}
	}
	for _, bad := range [][]byte{append(bytes.Clone(good), 0), append(bytes.Clone(good), good...), []byte("hello\n")} {
		if try(bad) == nil {
			t.Errorf("%d bytes", len(bad))
		}
	}
	if _, err := refound.ReadBackup(t.TempDir(), newTestForkable()); err == nil {
		t.Error("a folder")
	}
	sure := func() (time.Duration, error) { return 0, nil }
	if _, _, err := refound.Restore(path, refound.Fork{Dir: filepath.Join(t.TempDir(), "d"), ID: "n1", Machine: newTestForkable(), WallError: sure}); err == nil {
		t.Error("restored from what is no backup")
	}
}

// Data folders with entries and images of each version are inspected, and recovered.
func TestFoldersOfEachVersion(t *testing.T) {
	img, err := os.ReadFile(filepath.Join("testdata", "v1", "image.bin"))
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := bytes.Cut(img, []byte(record.ImageMagic))
	if len(body) == 0 {
		t.Fatal("the image is empty")
	}
	for version := 1; version <= record.Version; version++ {
		dir := filepath.Join(t.TempDir(), "data")
		first := store.InitialState{
			ID: "n1", Arch: membership.OwnArch, PeerAddr: "n1:1", Cluster: sampleRoster().Cluster, Index: 42,
			Write: func(w io.Writer) error { _, err := w.Write(img); return err },
		}
		if err := store.CreateFolder(dir, first); err != nil {
			t.Fatal(err)
		}
		n := appendFiles(t, dir, fmt.Sprintf("v%d", version))
		machine := newTestForkable()
		in, err := refound.Inspect(dir, machine)
		if err != nil || in.Damage != nil {
			t.Fatalf("version %d: %v, %v", version, err, in.Damage)
		}
		if in.Index != 42+uint64(n) || in.Cluster != sampleRoster().Cluster || in.Kinds["writes"]+in.Kinds["ticks"]+in.Kinds["members"] != n ||
			machine.vars["a"].Value != "1" {
			t.Errorf("version %d: %+v", version, in)
		}
		done, kept, err := refound.Recover(refound.Fork{Dir: dir, Machine: newTestForkable(), Hold: time.Minute, FenceAbove: &in.Index})
		if err != nil {
			t.Fatalf("version %d: %v", version, err)
		}
		if done.Old != in.Cluster || done.Cluster == in.Cluster || done.Index != in.Index || done.Fence < in.Fence+refound.FenceLeap {
			t.Errorf("version %d: %+v", version, done)
		}
		if old, err := refound.Inspect(kept, newTestForkable()); err != nil || old.Index != in.Index || old.Cluster != in.Cluster {
			t.Errorf("version %d: what was kept: %+v, %v", version, old, err)
		}
		again, err := refound.Inspect(dir, newTestForkable())
		if err != nil || again.Damage != nil || again.Cluster != done.Cluster || len(again.Servers) != 1 || again.Term != 1 {
			t.Errorf("version %d: the new one: %+v, %v", version, again, err)
		}
	}
}

// The last entries of a snapshot may be of Raft's own, such as the barrier with which a term begins: the image ends
// before them, and the log is read on behind them. An image that ends later than its snapshot is damage.
func TestFolderWhoseSnapshotEndsWithoutAWrite(t *testing.T) {
	img, err := os.ReadFile(filepath.Join("testdata", "v1", "image.bin")) // it ends with entry 42
	if err != nil {
		t.Fatal(err)
	}
	for index, damage := range map[uint64]string{41: "it ends with entry 42, and the snapshot with entry 41", 42: "", 44: ""} {
		dir := filepath.Join(t.TempDir(), "data")
		made := store.InitialState{
			ID: "n1", Arch: membership.OwnArch, PeerAddr: "n1:1", Cluster: sampleRoster().Cluster, Index: index,
			Write: func(w io.Writer) error { _, err := w.Write(img); return err },
		}
		if err := store.CreateFolder(dir, made); err != nil {
			t.Fatal(err)
		}
		in, err := refound.Inspect(dir, newTestForkable())
		if err != nil {
			t.Fatal(err)
		}
		if damage != "" {
			if in.Damage == nil || !strings.Contains(in.Damage.Error(), damage) {
				t.Errorf("of entry %d: %v", index, in.Damage)
			}
			continue
		}
		done, _, err := refound.Recover(refound.Fork{Dir: dir, Machine: newTestForkable(), Hold: time.Minute, FenceAbove: new(uint64(1000))})
		if in.Damage != nil || in.Index != index || err != nil || done.Index != index {
			t.Errorf("of entry %d: %v, %d, recovered: %v, %+v", index, in.Damage, in.Index, err, done)
		}
	}
}

// A recovery that was cut short is made again: the folder is there until the new one is whole, and if it was set aside
// already, the error says which folder takes its place.
func TestRecoverCanBeRepeated(t *testing.T) {
	img, err := os.ReadFile(filepath.Join("testdata", "v1", "image.bin"))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "data")
	made := store.InitialState{
		ID: "n1", Arch: membership.OwnArch, PeerAddr: "n1:1", Cluster: sampleRoster().Cluster, Index: 42,
		Write: func(w io.Writer) error { _, err := w.Write(img); return err },
	}
	if err := store.CreateFolder(dir, made); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir+".recovered", "half"), 0o700); err != nil { // the end came before it was whole
		t.Fatal(err)
	}
	recovered := func() (*refound.Refounded, string, error) {
		return refound.Recover(refound.Fork{Dir: dir, Machine: newTestForkable(), Hold: time.Minute, FenceAbove: new(uint64(1000))})
	}
	done, kept, err := recovered()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, dir+".recovered"); err != nil { // the end came before it had its name
		t.Fatal(err)
	}
	if _, _, err := recovered(); err == nil || !strings.HasSuffix(err.Error(), fmt.Sprintf(
		"an earlier recovery was cut short: if %s is not there, rename %s to it", dir, dir+".recovered")) {
		t.Errorf("between two names: %v", err)
	}
	if err := os.Rename(dir+".recovered", dir); err != nil {
		t.Fatal(err)
	}
	for folder, cluster := range map[string]string{dir: done.Cluster, kept: sampleRoster().Cluster} {
		if in, err := refound.Inspect(folder, newTestForkable()); err != nil || in.Damage != nil || in.Cluster != cluster {
			t.Errorf("%s: %+v, %v", folder, in, err)
		}
	}
}

// appendFiles appends the entries of a folder of testdata to the log of a data folder.
func appendFiles(t *testing.T, dir, version string) (n int) {
	t.Helper()
	d, err := store.OpenFolder(dir, "n1", membership.OwnArch)
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(d, store.Options{Fatal: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join("record", "testdata", version, "entry*.bin"))
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	var list []raft.Log
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		e, err := record.Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == record.Roster { // of another cluster than the image's
			data = record.Append(nil, &record.Entry{Kind: record.Roster, Term: e.Term})
		}
		list = append(list, raft.Log{Term: e.Term, Type: raft.LogCommand, Data: data})
	}
	slices.SortStableFunc(list, func(a, b raft.Log) int { return cmp.Compare(a.Term, b.Term) })
	for i := range list {
		list[i].Index = 43 + uint64(i)
		if err := s.Log.StoreLog(&list[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Stable.SetUint64([]byte("CurrentTerm"), list[len(list)-1].Term); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Close(), d.Close()); err != nil {
		t.Fatal(err)
	}
	return len(files)
}
