package nemesis

import (
	"bufio"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockd/jepsen-lite/target"
)

// hermit is a target with one node that answers only when another client comes. The target is busy with earlier
// commands at first.
type hermit struct {
	target.Target
	// the node
	sleeps string
	busy   time.Time // nothing is answered before
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

// Each node is asked once after a silence, which begins when earlier commands have been executed. A node that leaves
// its only client waiting is reported. The clients are stopped until then, and resumed once.
func TestQuietFinds(t *testing.T) {
	for _, sleeps := range []string{"", "n2"} {
		synctest.Test(t, func(t *testing.T) {
			hushed, spoke, began := time.Time{}, 0, time.Now()
			h := &hermit{sleeps: sleeps, busy: began.Add(3 * loneMax)}
			f := (&Runner{Target: h, Quiet: func(on bool) {
				if on {
					hushed = time.Now()
				} else {
					spoke++
				}
			}}).field(nil)
			quiet(f, Fault{Kind: "quiet", Variant: "write", Dice: 1})
			if len(h.asked) != 6 || h.asked[3].Sub(h.busy) < quietMin || hushed != began || spoke != 1 {
				t.Errorf("asked at %v; silence from %s on, ended %d times", h.asked, hushed, spoke)
			}
			if found := f.found.all; (len(found) > 0) != (sleeps != "") {
				t.Errorf("%q sleeps: found %v", sleeps, found)
			}
		})
	}
}

// forgetful is a target whose leader answers every command with OK, but one write only when another one comes.
type forgetful struct {
	hermit
	forgets int          // number of that write; 0: none
	writes  atomic.Int64 // so far
}

func (f *forgetful) Dial(_ string, timeout time.Duration) (*target.Conn, error) {
	here, there := net.Pipe()
	go f.serve(there)
	return target.Over(here, timeout)
}

// Arm fails: there is no fault port.
func (f *forgetful) Arm(string, target.Strike) (target.Armed, error) {
	return target.Armed{}, os.ErrNotExist
}

func (f *forgetful) serve(conn net.Conn) {
	defer conn.Close()
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		answer := ""
		switch lines.Text() {
		case "PING":
			answer = "+PONG\r\n"
		case "lone":
			answer = "+OK\r\n"
			if int(f.writes.Add(1)) == f.forgets {
				continue
			}
		default: // the rest of a command
			continue
		}
		if _, err := io.WriteString(conn, answer); err != nil {
			return
		}
	}
}

// A leader that leaves a straggler waiting is reported, and no other one.
func TestStragglerIsFound(t *testing.T) {
	for forgets, length := range map[int]time.Duration{0: 50 * time.Millisecond, 3 * (lateCrowd + 1): time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			f := (&Runner{Target: &forgetful{forgets: forgets}}).field(nil)
			times := straggle(f, dice(1), length)
			if found := f.found.all; (len(found) > 0) != (forgets > 0) || forgets > 0 && times != 2 || times == 0 {
				t.Errorf("write %d is forgotten: after %d times found %v", forgets, times, found)
			}
		})
	}
}
