package history

import (
	"bytes"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A recorded history is read back: operations with their completions, unknown ones without an end, faults with their
// windows.
func TestRoundTrip(t *testing.T) {
	var buf bytes.Buffer
	r := NewRecorder(&buf, time.Now())
	for _, e := range []Event{
		{Process: 1, Type: Invoke, Op: "set", Key: "k", Value: []string{"a"}, Node: "n1"},
		{Process: Nemesis, Type: Invoke, Op: "kill", Key: "1", Value: []string{"leader"}},
		{Process: 2, Type: Invoke, Op: "get", Key: "k"},
		{Process: 1, Type: Info, Op: "set", Key: "k", Error: "EOF"},
		{Process: 2, Type: OK, Op: "get", Key: "k", Value: []string{"a"}},
		{Process: Nemesis, Type: OK, Op: "kill", Key: "1", Value: []string{"kill leader [n1]"}},
		{Process: 3, Type: Invoke, Op: "get", Key: "k"},
		{Process: 3, Type: Fail, Op: "get", Key: "k", Error: "LOADING"},
		{Process: 4, Type: Invoke, Op: "get", Key: "k"},
	} {
		r.Record(e)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if c := r.Counts(); c.OK != 1 || c.Fail != 1 || c.Info != 1 || c.Faults != 1 {
		t.Errorf("counts %+v", c)
	}
	h, err := Read(&buf)
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		outcome Type
		line    int
		forever bool
	}{{Info, 4, true}, {OK, 5, false}, {Fail, 8, false}, {Info, 9, true}}
	for i, w := range want {
		if o := h.Ops[i]; o.Outcome != w.outcome || o.Line != w.line || (o.End == Forever) != w.forever {
			t.Errorf("operation %d: %+v, want %+v", i, o, w)
		}
	}
	if len(h.Faults) != 1 || h.Faults[0].What != "kill leader [n1]" || h.Faults[0].End <= h.Faults[0].Start {
		t.Errorf("faults %+v", h.Faults)
	}
}

// A malformed file is refused, with its line.
func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`{"time":1,"process":1,"type":"ok","op":"get"}`:                                                                  "line 1: process 1 completes get, which it has not invoked",
		`{"time":1,"process":1,"type":"invoke","op":"get"}` + "\n" + `{"time":2,"process":1,"type":"invoke","op":"set"}`: "line 2: process 1 invokes set while its get has not completed",
		`{"time":2,"process":1,"type":"invoke","op":"get"}` + "\n" + `{"time":1,"process":1,"type":"ok","op":"get"}`:     "line 2: time 1 lies before that of the line above",
		`{`: "line 1: unexpected end of JSON input",
	} {
		if _, err := Read(strings.NewReader(text)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// Overlapping faults count once.
func TestDisturbed(t *testing.T) {
	h := &History{Faults: []Window{{Start: 10, End: 20}, {Start: 15, End: 25}, {Start: 50, End: 60}}}
	for _, c := range []struct{ a, b, after, want int64 }{
		{0, 100, 0, 25}, {0, 100, 5, 35}, {12, 18, 0, 6}, {30, 40, 0, 0}, {55, 58, 0, 3}, {26, 40, 4, 3},
	} {
		if got := h.Disturbed(c.a, c.b, c.after); got != c.want {
			t.Errorf("Disturbed(%d, %d, %d) = %d, want %d", c.a, c.b, c.after, got, c.want)
		}
	}
}

// The marks of processes tell when no majority ran, and when no node ran.
func TestHalts(t *testing.T) {
	text := ""
	for i, mark := range []string{"up n1", "up n2", "up n3", "down n1", "up n1", "down n1", "down n2", "down n3", "up n2", "down n1", "up n3", "down n2"} {
		op, node, _ := strings.Cut(mark, " ")
		text += fmt.Sprintf(`{"time":%d,"process":-1,"type":"info","op":%q,"node":%q,"value":[]}`+"\n", i, op, node)
	}
	h, err := Read(strings.NewReader(text + `{"time":20,"process":1,"type":"invoke","op":"get","value":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []Halt{{6, 7, false}, {7, 8, true}, {8, 10, false}, {11, 20, false}}
	if !slices.Equal(h.Halts, want) {
		t.Errorf("halts %v, want %v", h.Halts, want)
	}
	if len(h.Faults) > 0 {
		t.Errorf("marks are taken for faults: %v", h.Faults)
	}
}

// The history tells when the clients' work ended, and when it was to end.
func TestWorked(t *testing.T) {
	const rest = `{"time":50,"process":-1,"type":"info","op":"rest"%s}` + "\n" + `{"time":90,"process":-1,"type":"info","op":"up","node":"n1"}`
	for value, want := range map[string][2]int64{
		"":                 {50, 50},
		`,"value":[]`:      {50, 50},
		`,"value":["40"]`:  {50, 40},
		`,"value":["60"]`:  {50, 50},
		`,"value":["not"]`: {},
	} {
		h, err := Read(strings.NewReader(fmt.Sprintf(rest, value)))
		if (err != nil) != (want == [2]int64{}) || err == nil && (h.Worked != want[0] || h.Asked != want[1]) {
			t.Errorf("%s: %v, %+v", value, err, h)
		}
	}
	h, err := Read(strings.NewReader(`{"time":90,"process":-1,"type":"info","op":"up","node":"n1"}`))
	if err != nil || h.Worked != 90 || h.Asked != 90 {
		t.Errorf("without that event: %v, %+v", err, h)
	}
}

// Events of one instant follow each other: who compares their times learns their order. What is kept in memory makes
// the history that a file makes.
func TestKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := Keep(time.Now())
		value := []string{"1"}
		r.Record(Event{Process: 1, Type: Invoke, Op: "set", Key: "k", Value: value})
		r.Record(Event{Process: 1, Type: OK, Op: "set", Key: "k"})
		value[0] = "changed later"
		r.Record(Event{Process: Nemesis, Type: Info, Op: Down, Node: "n1"})
		kept, err := r.History()
		if err != nil {
			t.Fatal(err)
		}
		if o := kept.Ops[0]; o.Start >= o.End || o.End >= kept.End || o.In[0] != "1" {
			t.Errorf("%+v, end at %d", o, kept.End)
		}
		path := filepath.Join(t.TempDir(), "history.jsonl")
		if err := r.Save(path); err != nil {
			t.Fatal(err)
		}
		if loaded, err := Load(path); err != nil || !reflect.DeepEqual(loaded, kept) {
			t.Errorf("%v: loaded %+v, kept %+v", err, loaded, kept)
		}
	})
}
