package nemesis

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"lockd/jepsen-lite/target"
)

// hermit is a target of which one node answers only when somebody else comes. It is busy
// with what was asked for before.
type hermit struct {
	target.Target
	sleeps string
	busy   time.Time // until then nothing is answered
	asked  []time.Time
}

func (h *hermit) Net() *target.Net    { return target.NewNet() }
func (h *hermit) Nodes() []string     { return []string{"n1", "n2", "n3"} }
func (h *hermit) Leader() string      { return "n1" }
func (h *hermit) Serving(string) bool { return true }

func (h *hermit) Do(node string, timeout time.Duration, args ...string) (target.Reply, error) {
	began := time.Now()
	h.asked = append(h.asked, began)
	time.Sleep(min(timeout, time.Until(h.busy)))
	if node == h.sleeps || time.Now().Before(h.busy) {
		time.Sleep(timeout - time.Since(began))
		return target.Reply{}, os.ErrDeadlineExceeded
	}
	return target.Reply{Kind: '+', Str: "OK"}, nil
}

func (h *hermit) Endpoint(int, int) (string, string, error) { return "", "", os.ErrNotExist }

// Each node is asked once after a silence, which begins when what was under way has been
// executed; one that leaves its only client waiting is found. The clients are quiet until
// then, and not for ever.
func TestQuietFinds(t *testing.T) {
	for _, sleeps := range []string{"", "n2"} {
		synctest.Test(t, func(t *testing.T) {
			hushed, spoke, began := time.Time{}, 0, time.Now()
			h := &hermit{sleeps: sleeps, busy: began.Add(3 * loneMax)}
			f := (&Field{Target: h, Quiet: func(on bool) {
				if on {
					hushed = time.Now()
				} else {
					spoke++
				}
			}}).own(nil)
			quiet(f, Fault{Kind: "quiet", Variant: "write", Dice: 1})
			if len(h.asked) != 6 || h.asked[3].Sub(h.busy) < quietMin || hushed != began || spoke != 1 {
				t.Errorf("asked at %v; silence from %s on, ended %d times", h.asked, hushed, spoke)
			}
			if found := f.Found(); (len(found) > 0) != (sleeps != "") {
				t.Errorf("%q sleeps: found %v", sleeps, found)
			}
		})
	}
}
