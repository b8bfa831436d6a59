package nemesis

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockd/jepsen-lite/history"
	"lockd/jepsen-lite/target"
)

// clocks is a target that keeps how far the clocks of its nodes are ahead, in ms, and whether each mark of the history
// told so before.
type clocks struct {
	target.Target
	net     *target.Net
	t       *testing.T
	written *bytes.Buffer
	rec     *history.Recorder

	ahead map[string]int64
	most  map[string]int64
	down  string
}

func (c *clocks) Nodes() []string  { return []string{"n1", "n2", "n3"} }
func (c *clocks) Leader() string   { return "n2" }
func (c *clocks) Net() *target.Net { return c.net }

func (c *clocks) Fault(node, line string) (string, error) {
	if node == c.down {
		return "", errors.New("it is down")
	}
	var step, percent int64
	if _, err := fmt.Sscanf(line, "clock %d %d", &step, &percent); err != nil {
		c.t.Error(line, err)
	}
	c.ahead[node] += step
	c.most[node] = max(c.most[node], c.ahead[node])
	low, high, drift := c.marked(node)
	if c.ahead[node] < low || c.ahead[node] > high || percent > drift || -percent > drift {
		c.t.Errorf("%s is %d ms ahead and drifts by %d %%, marked is %d to %d, %d %%", node, c.ahead[node], percent, low, high, drift)
	}
	return "ok", nil
}

func (c *clocks) ResetFaults(node string) {
	if low, high, drift := c.marked(node); low == 0 && high == 0 && drift == 0 {
		c.t.Errorf("%s is marked as right before it is", node)
	}
	c.ahead[node] = 0
}

// marked returns the last mark of a node.
func (c *clocks) marked(node string) (low, high, percent int64) {
	if err := c.rec.Close(); err != nil {
		c.t.Fatal(err)
	}
	h, err := history.Read(bytes.NewReader(c.written.Bytes()))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, m := range h.Marks {
		if m.Op == history.Clock && m.Node == node {
			if _, err := fmt.Sscan(strings.Join(m.Value, " "), &low, &high, &percent); err != nil {
				c.t.Fatal(err)
			}
		}
	}
	return low, high, percent
}

// The history tells how far each clock may be off, from before it is until it is right. No majority of the clocks steps
// far ahead.
func TestClocksAreMarked(t *testing.T) {
	for _, variant := range Find("clock").Variants {
		for seed := range uint64(20) {
			synctest.Test(t, func(t *testing.T) {
				c := &clocks{t: t, net: target.NewNet(), written: &bytes.Buffer{}, ahead: map[string]int64{}, most: map[string]int64{}}
				if seed%4 == 0 {
					c.down = "n3"
				}
				c.rec = history.NewRecorder(c.written, time.Now())
				what, stop := clock((&Runner{Target: c, History: c.rec}).field(nil, "clock"), Fault{"clock", variant, seed})
				time.Sleep(3 * strobeEvery)
				stop()
				var most []int64
				for _, node := range c.Nodes() {
					most = append(most, c.most[node])
					if low, high, percent := c.marked(node); low != 0 || high != 0 || percent != 0 {
						t.Errorf("%s: %s is marked as wrong afterwards", what, node)
					}
				}
				if slices.Sort(most); most[1] > leadMaxMs {
					t.Errorf("%s: two clocks were %d ms ahead", what, most[1])
				}
			})
		}
	}
}
