package server

import (
	"testing"
	"time"
)

// A second pause makes the present one stricter or longer, never milder; after its end a new one begins.
func TestPauseIsNeverMilder(t *testing.T) {
	var p pause
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	begin := func(all bool, until, now int) func() { return func() { p.begin(all, at(until), at(now)) } }
	for _, step := range []struct {
		what          string
		do            func()
		now           int
		reads, writes time.Duration // left
	}{
		{"a pause of writes", begin(false, 300, 0), 10, 0, 290},
		{"one of all, shorter", begin(true, 50, 10), 20, 280, 280},
		{"one of writes, shorter", begin(false, 30, 20), 30, 270, 270},
		{"one of writes, longer", begin(false, 400, 30), 30, 370, 370},
		{"its last moment", func() {}, 399, 1, 1},
		{"its end", func() {}, 400, 0, 0},
		{"a pause of writes after it", begin(false, 500, 400), 450, 0, 50},
		{"lifted", p.end, 450, 0, 0},
	} {
		step.do()
		reads, _ := p.left(false, at(step.now))
		writes, _ := p.left(true, at(step.now))
		if reads != step.reads*time.Millisecond || writes != step.writes*time.Millisecond {
			t.Errorf("%s: reads wait %v, writes %v", step.what, reads, writes)
		}
	}
}
