package nemesis

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"lockd/jepsen-lite/history"
	"lockd/jepsen-lite/target"
)

// scene is a target of which only the ends and starts of processes matter; it notes
// how many marks had been written when it was told.
type scene struct {
	target.Target
	marks func() int
	told  []string
}

func (s *scene) note(what, node string) {
	s.told = append(s.told, fmt.Sprintf("%s %s after %d", what, node, s.marks()))
}

func (s *scene) Nodes() []string           { return []string{"n1", "n2"} }
func (s *scene) Kill(node string)          { s.note("kill", node) }
func (s *scene) Shutdown(node string)      { s.note("shutdown", node) }
func (s *scene) Replace(node string)       { s.note("replace", node) }
func (s *scene) Restart(node string) error { s.note("restart", node); return nil }

// A process's end is marked when it is over, a start before it is made.
func TestWatchMarks(t *testing.T) {
	var text bytes.Buffer
	rec := history.NewRecorder(&text, time.Now())
	flushed := func() int {
		_ = rec.Close()
		return strings.Count(text.String(), "\n")
	}
	s := &scene{marks: flushed}
	w := Watch(s, rec) // two marks: both nodes run
	w.Kill("n1")
	_ = w.Restart("n1")
	w.Shutdown("n2")
	_ = w.Restart("n2")
	w.Replace("n1")
	want := "[kill n1 after 2 restart n1 after 4 shutdown n2 after 4 restart n2 after 6 replace n1 after 6]"
	if got := fmt.Sprint(s.told); got != want {
		t.Errorf("told %s, want %s", got, want)
	}
	_ = rec.Close()
	var marks []string
	for _, line := range strings.Split(strings.TrimSpace(text.String()), "\n") {
		for _, op := range []string{history.Down, history.Up} {
			for _, n := range s.Nodes() {
				if strings.Contains(line, `"op":"`+op+`"`) && strings.Contains(line, `"node":"`+n+`"`) {
					marks = append(marks, op+" "+n)
				}
			}
		}
	}
	if got := strings.Join(marks, ", "); got != "up n1, up n2, down n1, up n1, down n2, up n2, down n1" {
		t.Errorf("marks %s", got)
	}
}
