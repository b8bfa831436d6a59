package nemesis

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"lockd/jepsen-lite/target"
)

// hermit is a target of which one node answers only when somebody else comes.
type hermit struct {
	target.Target
	sleeps string
	asked  []time.Time
}

func (h *hermit) Net() *target.Net    { return target.NewNet() }
func (h *hermit) Nodes() []string     { return []string{"n1", "n2", "n3"} }
func (h *hermit) Leader() string      { return "n1" }
func (h *hermit) Serving(string) bool { return true }

func (h *hermit) Do(node string, timeout time.Duration, args ...string) (target.Reply, error) {
	h.asked = append(h.asked, time.Now())
	if node == h.sleeps {
		time.Sleep(timeout)
		return target.Reply{}, os.ErrDeadlineExceeded
	}
	return target.Reply{Kind: '+', Str: "OK"}, nil
}

func (h *hermit) Endpoint(int, int) (string, string, error) { return "", "", os.ErrNotExist }

// Each node is asked once after a silence; one that leaves its only client waiting is
// found. The clients are quiet until then, and not for ever.
func TestQuietFinds(t *testing.T) {
	for _, sleeps := range []string{"", "n2"} {
		synctest.Test(t, func(t *testing.T) {
			h := &hermit{sleeps: sleeps}
			hushed, spoke, began := time.Time{}, 0, time.Now()
			f := (&Field{Target: h, Quiet: func(on bool) {
				if on {
					hushed = time.Now()
				} else {
					spoke++
				}
			}}).own(nil)
			quiet(f, Fault{Kind: "quiet", Variant: "write", Dice: 1})
			if len(h.asked) != 3 || h.asked[0].Sub(began) < quietMin || hushed != began || spoke != 1 {
				t.Errorf("asked at %v; silence from %s on, ended %d times", h.asked, hushed, spoke)
			}
			if found := f.Found(); (len(found) > 0) != (sleeps != "") {
				t.Errorf("%q sleeps: found %v", sleeps, found)
			}
		})
	}
}
