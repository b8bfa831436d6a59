package nemesis

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockd/jepsen-lite/history"
	"lockd/jepsen-lite/target"
)

// scene is a target that records orders to processes, each with the number of marks at that moment.
type scene struct {
	target.Target
	marks func() int
	told  []string
	sees  target.Observer
	away  atomic.Bool // no node serves
	lacks atomic.Bool // n2 lacks entries
}

func (s *scene) Lacking() []string {
	if s.lacks.Load() {
		return []string{"n2"}
	}
	return nil
}

func (s *scene) Observe(o target.Observer) { s.sees = o }
func (s *scene) Serving(string) bool       { return !s.away.Load() }
func (s *scene) Pause(node string)         { s.note("pause", node) }
func (s *scene) Resume(node string)        { s.note("resume", node) }

func (s *scene) note(what, node string) {
	s.told = append(s.told, fmt.Sprintf("%s %s after %d", what, node, s.marks()))
}

func (s *scene) Nodes() []string           { return []string{"n1", "n2"} }
func (s *scene) Kill(node string)          { s.note("kill", node) }
func (s *scene) Shutdown(node string)      { s.note("shutdown", node) }
func (s *scene) Replace(node string)       { s.note("replace", node) }
func (s *scene) Restart(node string) error { s.note("restart", node); return nil }

// recording returns a recorder, and a function that returns its events so far.
func recording() (rec *history.Recorder, lines func() []history.Event) {
	var text bytes.Buffer
	rec = history.NewRecorder(&text, time.Now())
	return rec, func() (all []history.Event) {
		_ = rec.Close()
		for d := json.NewDecoder(strings.NewReader(text.String())); d.More(); {
			var e history.Event
			if d.Decode(&e) != nil {
				return all
			}
			all = append(all, e)
		}
		return all
	}
}

// marksOf joins the events of some operations in a line.
func marksOf(events []history.Event, ops ...string) string {
	var marks []string
	for _, e := range events {
		if slices.Contains(ops, e.Op) {
			marks = append(marks, strings.TrimSpace(strings.Join(append([]string{e.Op, e.Node, e.Key}, e.Value...), " ")))
		}
	}
	return strings.Join(marks, ", ")
}

// The end of a process is marked after it, a start before it.
func TestWatchMarks(t *testing.T) {
	rec, lines := recording()
	s := &scene{marks: func() int { return strings.Count(marksOf(lines(), history.Up, history.Down), ",") + 1 }}
	w := Watch(t.Context(), s, rec) // two marks: both nodes run
	w.Kill("n1")
	_ = w.Restart("n1")
	w.Shutdown("n2")
	_ = w.Restart("n2")
	w.Replace("n1")
	want := "[kill n1 after 2 restart n1 after 4 shutdown n2 after 4 restart n2 after 6 replace n1 after 6]"
	if got := fmt.Sprint(s.told); got != want {
		t.Errorf("told %s, want %s", got, want)
	}
	if got := marksOf(lines(), history.Up, history.Down); got != "up n1, up n2, down n1, up n1, down n2, up n2, down n1" {
		t.Errorf("marks %s", got)
	}
}

// Leaves is marked before an order is carried out, and when a process ends by itself. Serves is marked when the node
// answers again.
func TestWatchServing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec, lines := recording()
		s := &scene{marks: func() int { return strings.Count(marksOf(lines(), history.Serves, history.Leaves), ",") + 1 }}
		w := Watch(t.Context(), s, rec) // two marks: both nodes serve
		s.away.Store(true)
		w.Pause("n1")
		w.Resume("n1")
		time.Sleep(time.Second) // it has not answered yet
		synctest.Wait()
		if got, want := marksOf(lines(), history.Serves, history.Leaves), "serves n1, serves n2, leaves n1"; got != want {
			t.Errorf("marks %s, want %s", got, want)
		}
		s.away.Store(false)
		time.Sleep(time.Second)
		s.away.Store(true)
		s.sees.Ended("n2")
		_ = w.Restart("n2")
		w.Kill("n2") // before it has served
		s.away.Store(false)
		time.Sleep(time.Second)
		if got, want := marksOf(lines(), history.Serves, history.Leaves), "serves n1, serves n2, leaves n1, serves n1, leaves n2, leaves n2"; got != want {
			t.Errorf("marks %s, want %s", got, want)
		}
		if got, want := fmt.Sprint(s.told), "[pause n1 after 3 resume n1 after 3 restart n2 after 5 kill n2 after 6]"; got != want {
			t.Errorf("told %s, want %s", got, want)
		}
	})
}

// A node that lacks entries no longer serves, whatever it answers, until it has them. Orders meanwhile have their
// marks.
func TestWatchLacking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec, lines := recording()
		s := &scene{marks: func() int { return 0 }}
		w := Watch(t.Context(), s, rec)
		serving := func(want string) {
			t.Helper()
			time.Sleep(time.Second)
			synctest.Wait()
			got := strings.TrimPrefix(marksOf(lines(), history.Serves, history.Leaves), "serves n1, serves n2")
			if got = strings.TrimPrefix(got, ", "); got != want {
				t.Errorf("marks %s, want %s", got, want)
			}
		}
		s.lacks.Store(true)
		serving("leaves n2")
		s.lacks.Store(false)
		serving("leaves n2, serves n2")
		s.lacks.Store(true)
		serving("leaves n2, serves n2, leaves n2")
		w.Kill("n2")
		_ = w.Restart("n2")
		serving("leaves n2, serves n2, leaves n2, leaves n2") // it answers again
		s.lacks.Store(false)
		serving("leaves n2, serves n2, leaves n2, leaves n2, serves n2")
	})
}

// A link is marked when its state changes, and not for each shape.
func TestWatchLinks(t *testing.T) {
	rec, lines := recording()
	s := &scene{marks: func() int { return 0 }}
	Watch(t.Context(), s, rec)
	for _, shape := range []target.Shape{{}, {Delay: 1}, {Delay: 2}, {Cut: true, Delay: 2}, {Cut: true}, {}, {}} {
		s.sees.Link("n1", "n2", shape)
	}
	if got, want := marksOf(lines(), history.Link), "link n1 n2 slow, link n1 n2 cut, link n1 n2 whole"; got != want {
		t.Errorf("marks %s, want %s", got, want)
	}
}

// obstinate takes a second to stop.
type obstinate struct{ scene }

func (o *obstinate) Shutdown(string) { time.Sleep(time.Second) }

// Virtual time moves on while a node stops that another fault is about to start.
func TestStartWhileANodeStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec, lines := recording()
		o := &obstinate{}
		o.marks = func() int { return 0 }
		w := Watch(t.Context(), o, rec)
		stopped := make(chan struct{})
		go func() {
			w.Shutdown("n1")
			close(stopped)
		}()
		synctest.Wait()
		if err := w.Restart("n1"); err != nil {
			t.Error(err)
		}
		<-stopped
		if got := marksOf(lines(), history.Up, history.Down); got != "up n1, up n2, down n1, up n1" {
			t.Errorf("marked %s", got)
		}
	})
}
