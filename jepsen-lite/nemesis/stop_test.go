package nemesis

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"lockd/jepsen-lite/target"
)

// sleeper is a target whose nodes take a while to end.
type sleeper struct {
	target.Target
	net   *target.Net
	takes time.Duration
	down  map[string]bool
	mute  bool // no node answers a write
}

func (s *sleeper) Nodes() []string          { return []string{"n1", "n2", "n3"} }
func (s *sleeper) Net() *target.Net         { return s.net }
func (s *sleeper) Resume(string)            {}
func (s *sleeper) Shutdown(string)          { time.Sleep(s.takes) }
func (s *sleeper) Serving(node string) bool { return !s.down[node] }

func (s *sleeper) Do(string, time.Duration, ...string) (target.Reply, error) {
	if s.mute {
		return target.Reply{}, errors.New("mute")
	}
	return target.Reply{Kind: '+', Str: "OK"}, nil
}

// A node that ends late is reported if nothing kept it from ending in time: with one member away, or one of its links
// cut. It is not reported with two away, a client that it does not reach, or a fault beside it that slows disks.
func TestStopIsJudged(t *testing.T) {
	cut := func(s *sleeper, a, b string) { s.net.Set(a, b, target.Shape{Cut: true}) }
	for name, c := range map[string]struct {
		takes time.Duration
		beset func(s *sleeper)
		kinds []string
		late  bool
	}{
		"in time":        {stopIn, func(*sleeper) {}, nil, false},
		"late":           {stopIn + 1, func(*sleeper) {}, nil, true},
		"one down":       {stopIn + 1, func(s *sleeper) { s.down["n2"] = true }, []string{"restart", "kill"}, true},
		"one cut":        {stopIn + 1, func(s *sleeper) { cut(s, "n1", "n2") }, []string{"partition", "restart"}, true},
		"two away":       {stopIn + 1, func(s *sleeper) { s.down["n2"] = true; cut(s, "n3", "n1") }, nil, false},
		"away meanwhile": {stopIn + 1, func(s *sleeper) { time.AfterFunc(time.Second, func() { cut(s, "n1", "n2"); cut(s, "n3", "n1") }) }, nil, false},
		"clients":        {stopIn + 1, func(s *sleeper) { cut(s, "n1", target.Clients) }, nil, false},
		"a disk":         {stopIn + 1, func(*sleeper) {}, []string{"restart", "stall"}, false},
		"busy":           {stopIn + 1, func(s *sleeper) { s.mute = true }, nil, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &sleeper{net: target.NewNet(), takes: c.takes, down: map[string]bool{}}
			f := (&Runner{Target: s}).field(nil, c.kinds...)
			c.beset(s)
			stopNode(f, "n1")
			if found := f.found.all; (len(found) > 0) != c.late || c.late && found[0].Kind != "stopped late" {
				t.Errorf("%s: found %v", name, found)
			}
		})
	}
}
