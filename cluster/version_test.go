package cluster

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"lockd/cluster/clock"
	"lockd/cluster/membership"
	"lockd/cluster/record"
	"lockd/cluster/refound"
	"lockd/cluster/replica"
	"lockd/internal/testfile"
	"lockd/resp"
)

// The snapshots and backups that version 1 has written open, for ever, with all that they hold.
func TestVersion1Opens(t *testing.T) {
	machine := newTestMachine()
	c := newCore(Config{Machine: machine, Clock: clock.NewSystem()})
	n := replica.New(newMembers(c, data{}, nil, nil, nil, nil).stateConfig())
	if err := n.Restore(bytes.NewReader(testfile.Compare(t, filepath.Join("testdata", "v1", "image.bin"), sampleImage()))); err != nil {
		t.Fatal(err)
	}
	if n.Applied.Load() != 42 || !reflect.DeepEqual(n.Roster(), sampleRoster()) {
		t.Errorf("image.bin: applied %d, roster %+v", n.Applied.Load(), n.Roster())
	}
	res := machine.View(resp.Stamp{}, resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"GET", "a"}}}})
	if got := res.Replies[0].Str; got != "1" {
		t.Errorf("image.bin: a is %q", got)
	}
	want := numberedRoster()
	applied, ros, err := record.ReadImage(bytes.NewReader(testfile.Compare(t, filepath.Join("testdata", "v1", "image-level.bin"), imageOf(want))))
	if err != nil || applied != 42 || !reflect.DeepEqual(ros, want) {
		t.Errorf("image-level.bin: applied %d, roster %+v, %v", applied, ros, err)
	}
	holds := newTestMachine()
	holds.vars["a"] = testVar{Value: "1"}
	testfile.Compare(t, filepath.Join("testdata", "v1", "backup.bin"), testBackup(t, holds))
	forked := newTestForkable()
	head, err := refound.ReadBackup(filepath.Join("testdata", "v1", "backup.bin"), forked)
	if err != nil || head.Index != 42 || head.Node != "n1" || forked.vars["a"].Value != "1" {
		t.Errorf("backup.bin: %+v, %v, %v", head, forked.vars, err)
	}
}

// formatsSince says of each format the version that is written.
func TestFormatsSince(t *testing.T) {
	for name, version := range map[string]uint64{"entry": record.Version, "snapshot": record.ImageVersion} {
		if got := resp.RulesAt(formatsSince, 1<<10)[name]; got != version {
			t.Errorf("the newest %s is of version %d, and formatsSince says %d", name, version, got)
		}
	}
}

// A snapshot of a later version, or with a part to come, is refused by its name; so is one of a development build.
func TestOtherSnapshotsAreRefused(t *testing.T) {
	change := func(f func(img []byte)) []byte {
		img := bytes.Clone(sampleImage())
		f(img)
		const at = len(record.ImageMagic) + 1 + 4
		end := at + int(binary.LittleEndian.Uint32(img[len(record.ImageMagic)+1:]))
		binary.LittleEndian.PutUint32(img[end:], crc32.Checksum(img[at:end], resp.CRC32C))
		return img
	}
	for want, img := range map[string][]byte{
		"format 2 is unknown to this version of lockd, which reads up to 1":          change(func(img []byte) { img[len(record.ImageMagic)]++ }),
		resp.NewerPart("the head of a snapshot"):                                     change(func(img []byte) { img[len(record.ImageMagic)+5] = 1 }),
		resp.NewerPart("the roster"):                                                 change(func(img []byte) { img[len(record.ImageMagic)+7] = 2 }),
		"it was written by a development build before 0.1.0, whose data do not open": change(func(img []byte) { copy(img, "lockdimg") }),
	} {
		if _, _, err := record.ReadImage(bytes.NewReader(img)); !errors.Is(err, record.ErrImage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func sampleRoster() *membership.Roster {
	m := membership.Member{ID: "n1", Incarnation: "abc", PeerAddr: "a:1", ClientAddrs: []string{"a:2", "b:2"}, Arch: "amd64"}
	r := membership.Empty.With(membership.Change{Cluster: "c", Upsert: []membership.Member{m}})
	return r.With(membership.Change{Remove: []string{"n0"}})
}

// numberedRoster has a level, and members whose numbers are not in the order of their ids.
func numberedRoster() *membership.Roster {
	r := membership.Empty
	for _, id := range []string{"n3", "n1", "n2"} {
		r = r.With(membership.Change{Cluster: "c", Upsert: []membership.Member{{ID: id, Incarnation: "of " + id, Arch: "amd64"}}})
	}
	return r.With(membership.Change{Remove: []string{"n1"}, Level: 3})
}

func imageOf(ros *membership.Roster) []byte {
	var b bytes.Buffer
	if err := (&replica.Image{Applied: 42, Roster: ros, Write: newTestMachine().Snapshot()}).Save(&b); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func sampleImage() []byte {
	m := newTestMachine()
	m.vars["a"] = testVar{Value: "1"}
	var b bytes.Buffer
	if err := (&replica.Image{Applied: 42, Roster: sampleRoster(), Write: m.Snapshot()}).Save(&b); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// A snapshot that was cut short, or changed in what cluster itself has written, is
// refused.
func TestImageDamage(t *testing.T) {
	good := sampleImage()
	head := len(good) - len(`{"Tick":0,"Conf":"","Vars":{"a":{"Value":"1","Deadline":0}}}`) - 1
	for i := range head {
		for bit := range 8 {
			bad := bytes.Clone(good)
			bad[i] ^= 1 << bit
			if _, _, err := record.ReadImage(bytes.NewReader(bad)); err == nil {
				t.Fatalf("bit %d of byte %d flipped: no error", bit, i)
			}
		}
		if _, _, err := record.ReadImage(bytes.NewReader(good[:i])); err == nil {
			t.Fatalf("cut to %d bytes: no error", i)
		}
	}
}

// Whatever stands at the beginning of a snapshot, reading it neither panics nor
// allocates without bound.
func FuzzImage(f *testing.F) {
	f.Add(sampleImage())
	f.Fuzz(func(t *testing.T, b []byte) {
		applied, ros, err := record.ReadImage(bytes.NewReader(b))
		if err != nil {
			return
		}
		var again bytes.Buffer
		i := &replica.Image{Applied: applied, Roster: ros, Write: newTestMachine().Snapshot()}
		if err := i.Save(&again); err != nil {
			t.Fatal(err)
		}
		applied2, ros2, err := record.ReadImage(&again)
		if err != nil || applied2 != applied || !reflect.DeepEqual(ros2, ros) {
			t.Fatalf("%d %+v\nbecame %d %+v, %v", applied, ros, applied2, ros2, err)
		}
	})
}
