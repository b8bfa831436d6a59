package logwriter

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// sink is a writer that can be told to hang, to fail, or to take only a part.
type sink struct {
	mu   sync.Mutex
	text strings.Builder
	hang chan struct{} // each write takes a value from it
	err  error         // writes fail
	part int           // bytes that the first write that fails takes
	all  int           // writes
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	hang := s.hang
	s.mu.Unlock()
	if hang != nil {
		<-hang
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all++
	if s.err != nil {
		n := min(s.part, len(p))
		s.part = 0
		s.text.Write(p[:n])
		return n, s.err
	}
	return s.text.Write(p)
}

func (s *sink) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *sink) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func notice(lines int) []byte { return fmt.Appendf(nil, "dropped %d\n", lines) }

// inBubble runs a test with a Writer to a sink in virtual time.
func inBubble(t *testing.T, test func(t *testing.T, w *Writer, s *sink)) {
	synctest.Test(t, func(t *testing.T) {
		s := &sink{}
		w := New(s, notice)
		test(t, w, s)
		s.set(func() {
			if s.hang != nil {
				close(s.hang)
				s.hang = nil
			}
		})
		w.Close(time.Second)
	})
}

const line = "0123456789012345678901234567890\n" // lineCost bytes

// fill writes more lines than a Writer holds.
func fill(w *Writer) (lines int) {
	lines = HeldMax/(len(line)+lineCost) + 1000
	for range lines {
		_, _ = w.Write([]byte(line))
	}
	return lines
}

// Lines come in order, and Flush waits for them.
func TestOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, w *Writer, s *sink) {
		want := ""
		for i := range 100 {
			fmt.Fprintln(w, i)
			want += fmt.Sprintln(i)
		}
		if !w.Flush(time.Second) || s.String() != want || w.Dropped() != 0 {
			t.Errorf("%d dropped, %q", w.Dropped(), s)
		}
		if !w.Flush(0) {
			t.Error("a Writer that has nothing to write is not flushed")
		}
	})
}

// A hanging reader does not block writers. Lines without room are counted, and the log says so in their place.
func TestReaderHangs(t *testing.T) {
	inBubble(t, func(t *testing.T, w *Writer, s *sink) {
		s.set(func() { s.hang = make(chan struct{}) })
		began := time.Now()
		lines := fill(w)
		fmt.Fprintln(w, "too late")
		if took := time.Since(began); took != 0 {
			t.Errorf("the writers waited %v", took)
		}
		dropped := int(w.Dropped())
		if dropped < 1000 || dropped > 1001 {
			t.Errorf("%d of %d dropped", dropped, lines)
		}
		if w.Flush(time.Second) || time.Since(began) != time.Second {
			t.Error("Flush does not end in time")
		}
		s.set(func() { close(s.hang); s.hang = nil })
		if !w.Flush(time.Second) {
			t.Error("the lines are not written once they can be")
		}
		fmt.Fprintln(w, "on")
		w.Flush(time.Second)
		want := strings.Repeat(line, lines+1-dropped) + fmt.Sprintf("dropped %d\non\n", dropped)
		if s.String() != want || int(w.Dropped()) != dropped {
			t.Errorf("%d bytes, the last are %q", len(s.String()), s.String()[max(0, len(s.String())-100):])
		}
	})
}

// The notice stands where lines are missing, and lines are taken again while others still wait.
func TestNoticeInItsPlace(t *testing.T) {
	inBubble(t, func(t *testing.T, w *Writer, s *sink) {
		s.set(func() { s.hang = make(chan struct{}) })
		synctest.Wait()
		lines := fill(w)
		dropped := int(w.Dropped())
		for range (lines-dropped)/2 + 1 { // one more than half, for there is the line that follows
			s.hang <- struct{}{}
		}
		synctest.Wait()
		fmt.Fprintln(w, "after")
		s.set(func() { close(s.hang); s.hang = nil })
		w.Flush(time.Second)
		if text := s.String(); !strings.HasSuffix(text, fmt.Sprintf("dropped %d\nafter\n", dropped)) {
			t.Errorf("the log ends with %q", text[len(text)-100:])
		}
	})
}

// With a full disk, or without a reader, nothing spins, no line is written twice, and held lines are written once that
// is possible.
func TestWritesFail(t *testing.T) {
	for _, err := range []error{syscall.ENOSPC, syscall.EPIPE, errors.New("any")} {
		inBubble(t, func(t *testing.T, w *Writer, s *sink) {
			s.set(func() { s.err, s.part = err, 3 })
			fmt.Fprintln(w, "one")
			fmt.Fprintln(w, "two")
			time.Sleep(time.Minute)
			s.set(func() {
				if s.all < 59 || s.all > 61 || s.text.String() != "one" {
					t.Errorf("%d writes in a minute: %q", s.all, s.text.String())
				}
			})
			s.set(func() { s.err = nil })
			if !w.Flush(2*failPause) || s.String() != "one\ntwo\n" {
				t.Errorf("%q", s)
			}
		})
	}
}

// A write that takes nothing and says no error does not spin either.
func TestWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		count := 0
		w := New(writerFunc(func([]byte) (int, error) { count++; return 0, nil }), notice)
		fmt.Fprintln(w, "one")
		time.Sleep(time.Minute)
		w.Close(0)
		synctest.Wait()
		if count > 61 {
			t.Errorf("%d writes in a minute", count)
		}
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// The last words follow earlier lines, fit beyond the limit for those, and go first if those cannot be written in time.
func TestLastWords(t *testing.T) {
	inBubble(t, func(t *testing.T, w *Writer, s *sink) {
		fmt.Fprintln(w, "before")
		if !w.Last(time.Second, func() { fmt.Fprintln(w, "stops") }) || s.String() != "before\nstops\n" {
			t.Errorf("%q", s)
		}
	})
	inBubble(t, func(t *testing.T, w *Writer, s *sink) {
		s.set(func() { s.hang = make(chan struct{}) })
		fill(w)
		began := time.Now()
		if w.Last(time.Second, func() { fmt.Fprintln(w, "stops") }) || time.Since(began) != time.Second {
			t.Errorf("Last takes %v", time.Since(began))
		}
		s.set(func() { close(s.hang); s.hang = nil })
		w.Flush(time.Second)
		if text := s.String(); !strings.HasPrefix(text, line+"stops\n"+line) {
			t.Errorf("the log begins with %q", text[:100])
		}
	})
}

// Close ends the goroutine, also in the pause after a failure; later lines are dropped.
func TestClose(t *testing.T) {
	inBubble(t, func(t *testing.T, w *Writer, s *sink) {
		s.set(func() { s.err = syscall.ENOSPC })
		fmt.Fprintln(w, "lost")
		if w.Close(0) {
			t.Error("Close says that all was written")
		}
		fmt.Fprintln(w, "late")
		if w.Close(0) || w.Dropped() != 1 {
			t.Errorf("%d dropped", w.Dropped())
		}
	})
}

// A real pipe that is full, and one without a reader.
func TestPipes(t *testing.T) {
	r, full, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	w := New(full, notice)
	defer w.Close(0)
	fill(w)
	fill(w) // the pipe takes some as well, of any size
	if w.Dropped() == 0 {
		t.Error("nothing was dropped")
	}
	_ = r.Close() // the write that waits fails, and so do those that follow
	fmt.Fprintln(w, "more")
	if w.Flush(time.Millisecond) {
		t.Error("it is written to nobody")
	}
	_ = full.Close()
}
