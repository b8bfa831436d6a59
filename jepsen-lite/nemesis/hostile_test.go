package nemesis

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockd/jepsen-lite/target"
)

// den is a target that records what hostile clients send.
type den struct {
	target.Target
	memory map[string]int64

	mu   sync.Mutex
	said []string // by connection
}

func (d *den) Nodes() []string                          { return []string{"n1", "n2"} }
func (d *den) Net() *target.Net                         { return target.NewNet() }
func (d *den) Endpoint(int, int) (_, _ string, _ error) { return "", "", io.EOF }
func (d *den) Leader() string                           { return "n1" }

func (d *den) Memory(node string) (now, most int64, err error) {
	return d.memory[node], d.memory[node], nil
}

func (d *den) Knock(string, target.Door) (net.Conn, error) {
	here, there := net.Pipe()
	d.mu.Lock()
	at := len(d.said)
	d.said = append(d.said, "")
	d.mu.Unlock()
	go func() {
		buf := make([]byte, 64<<10)
		for all := 0; all < 1<<20; { // then it reads no more
			n, err := there.Read(buf)
			d.mu.Lock()
			d.said[at] += string(buf[:n])
			d.mu.Unlock()
			if all += n; err != nil {
				return
			}
		}
	}()
	return here, nil
}

// The clients of every variant send what the variant says, and leave when the fault stops.
func TestHostile(t *testing.T) {
	first := map[string][]string{ // beginnings of what clients send
		"drip":       {"*2\r", string(clientHello()[:3]), "GET"},
		"handshakes": {string(clientHello()[:len(clientHello())/2])},
		"crowd":      {""},
		"deaf":       {"*2\r\n$3\r\nGET\r\n$9\r\nload:deaf\r\n*2\r\n"},
		"guesses":    {"*3\r\n$4\r\nAUTH\r\n"},
		"lines":      {strings.Repeat("x", 1<<19)},
		"huge":       {"*8\r\n$8388608\r\nxxx", "*2147483647\r\n", "*1048576\r\n$1\r\nx\r\n$1\r\n", "*1\r\n$8388608\r\n"},
	}
	for _, variant := range Find("hostile").Variants {
		synctest.Test(t, func(t *testing.T) {
			d := &den{memory: map[string]int64{}}
			f := (&Runner{Target: d}).field(nil, "hostile")
			_, end := hostile(f, Fault{Kind: "hostile", Variant: variant})
			time.Sleep(2*dripEvery + dripEvery/2) // three bytes
			d.mu.Lock()
			for _, want := range first[variant] {
				found := false
				for _, said := range d.said {
					found = found || strings.HasPrefix(said, want) && (variant != "drip" || len(said) == len(want))
				}
				if !found {
					t.Errorf("%s: nobody begins with %.40q", variant, want)
				}
			}
			d.mu.Unlock()
			end()
		})
	}
	if len(attacks) != len(first) || len(first) != len(Find("hostile").Variants) {
		t.Errorf("%d variants, %d attacks, %d tried", len(Find("hostile").Variants), len(attacks), len(first))
	}
}

// Memory that hostile clients cost a node is counted from the least that the node ever had. Beside other faults, and
// with the race detector, it is not judged.
func TestHostileMemory(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct {
		had   []int64 // by n1: at the beginnings and ends of faults
		kinds []string
		race  bool
		found int
	}{
		"little":          {[]int64{100 * mib, 600 * mib}, []string{"hostile"}, false, 0},
		"too much":        {[]int64{100 * mib, 613 * mib}, []string{"hostile"}, false, 1},
		"bit by bit":      {[]int64{100 * mib, 400 * mib, 400 * mib, 700 * mib}, []string{"hostile"}, false, 1},
		"beside another":  {[]int64{100 * mib, 900 * mib}, []string{"hostile", "load"}, false, 0},
		"with a detector": {[]int64{100 * mib, 900 * mib}, []string{"hostile"}, true, 0},
	} {
		d := &den{memory: map[string]int64{"n2": mib}}
		f := (&Runner{Target: d, Race: c.race}).field(nil, c.kinds...)
		for i, had := range c.had {
			if d.memory["n1"] = had; i%2 == 0 {
				weighAll(f)
			} else {
				weigh(f, "deaf")
			}
		}
		if found := f.found.all; len(found) != c.found || c.found > 0 && (found[0].Kind != "too much memory" || !strings.HasPrefix(found[0].Text, "n1 had ")) {
			t.Errorf("%s: %v", name, found)
		}
	}
}

// A hostile client connects again when a node has closed its connection, until its context ends.
func TestVillainComesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &den{}
		ctx, cancel := context.WithTimeout(t.Context(), 3*hostileRest+hostileRest/2)
		defer cancel()
		v := &villain{Context: ctx, at: d, node: "n1", door: target.Inside}
		v.come(func(*villain, net.Conn) {})
		if len(d.said) != 4 || v.times != 4 {
			t.Errorf("it came %d times (%d)", len(d.said), v.times)
		}
	})
}

// swelling is a target whose nodes take more and more memory for a time.
type swelling struct {
	den
	began time.Time
}

// Times and sizes of a target that swells.
const (
	swellsFor = 8 * time.Second
	swellsBy  = 20 << 20 // bytes in a second
)

func (s *swelling) Memory(string) (now, most int64, err error) {
	now = int64(swellsBy * min(time.Since(s.began), swellsFor).Seconds())
	return now, now, nil
}

// Deaf clients stay for as long as they cost their node more and more memory, if there is no other fault.
func TestDeafClientsFillANode(t *testing.T) {
	for _, c := range []struct {
		kinds []string
		least time.Duration
	}{{[]string{"hostile"}, swellsFor}, {[]string{"hostile", "load"}, 0}} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			_, end := hostile((&Runner{Target: &swelling{began: began}}).field(nil, c.kinds...), Fault{Kind: "hostile", Variant: "deaf"})
			if took := time.Since(began); took < c.least || took > c.least+deafFull+time.Second {
				t.Errorf("%v: they stay for %s", c.kinds, took)
			}
			end()
		})
	}
}
