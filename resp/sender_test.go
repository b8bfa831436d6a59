package resp

import (
	"math"
	"strings"
	"testing"
)

// A sender is the client that it was made of, also behind a request that travels, and bytes that are
// none are refused.
func TestSenderIsAClient(t *testing.T) {
	for _, c := range []Client{
		{}, {ID: math.MaxUint64, Name: "web", Addr: "10.0.0.1:5000", Node: "n1"}, {ID: 1, Name: strings.Repeat("n", 300)},
	} {
		s := c.Sender()
		if got := s.Client(); s == "" || got != c {
			t.Errorf("%q: %+v, want %+v", s, got, c)
		}
		d := NewDecoder([]byte(s + "more"))
		if got := d.Sender(); got != s || d.Len() != len("more") {
			t.Errorf("%q was read as %q, with %d bytes left", s, got, d.Len())
		}
		for n := range s {
			d := NewDecoder([]byte(s[:n]))
			if got := d.Sender(); got != "" || d.Err() == nil {
				t.Errorf("%q was read as %q", s[:n], got)
			}
		}
	}
	if got := Sender("").Client(); got != (Client{}) {
		t.Errorf("nobody is %+v", got)
	}
}

// A client is the same under another name; nil is not the same as nil.
func TestSameClient(t *testing.T) {
	one := Client{ID: 1, Name: "web", Addr: "a:1", Node: "n1"}
	for want, others := range map[bool][]Client{
		true:  {one, {ID: 1, Addr: "a:1", Node: "n1"}},
		false: {{ID: 2, Addr: "a:1", Node: "n1"}, {ID: 1, Addr: "a:2", Node: "n1"}, {ID: 1, Addr: "a:1", Node: "n2"}},
	} {
		for _, c := range others {
			if got := one.Same(&c); got != want {
				t.Errorf("%+v and %+v: %t", one, c, got)
			}
		}
	}
	nobody := (*Client)(nil)
	if nobody.Same(nobody) || nobody.Same(&one) || one.Same(nobody) {
		t.Error("nobody is somebody")
	}
}

// Passing a request on, or running it, does not allocate for its sender.
func TestSenderCostsNoAllocation(t *testing.T) {
	cost := func(by Sender) float64 {
		var data []byte
		for range 16 {
			data = AppendRequest(data, Request{Cmds: []Cmd{{Args: Args{"SET", "key", "value"}}}, Sender: by})
		}
		out := make([]byte, 0, 2*len(data))
		return testing.AllocsPerRun(10, func() {
			d := NewDecoder(data)
			for out = out[:0]; d.Len() > 0; {
				out = AppendRequest(out, d.Request())
			}
			if string(out) != string(data) {
				t.Errorf("%q has become %q", data, out)
			}
		})
	}
	by := Client{ID: 300, Name: "web", Addr: "10.0.0.1:5000", Node: "n1"}
	if with, without := cost(by.Sender()), cost(""); with != without {
		t.Errorf("%v allocations, %v without a sender", with, without)
	}
}
