package server

import (
	"slices"
	"testing"

	"lockd/resp"
	"lockd/resp/lockuse"
)

// A request of a command that takes observations has them beside its arguments, which stay the client's own, and
// has nothing beside it that writes. What a client makes up is an argument.
func TestObservationsOfARequest(t *testing.T) {
	answer := func(r resp.Reply) fakeRun { return func(*fakeBackend, resp.Cmd) resp.Reply { return r } }
	row := func(name string, flags resp.Flags, run fakeRun) resp.Row[fakeRun] {
		return fakeRow(name, -1, flags, resp.NoKeys, "generic", "1.0.0", "", "", run)
	}
	_, fake, addr := startServer(t, func(cfg *Config) {
		cfg.Node = "n1"
		cfg.Backend.(*fakeBackend).table = resp.NewTable([]resp.Row[fakeRun]{
			row("setnx", resp.Write, answer(resp.Int(1))), row("expire", resp.Write, answer(resp.Int(1))),
			row("get", resp.ReadOnly, answer(resp.Nil())),
			row("doctor", resp.ReadOnly|resp.TakesObservations, func(_ *fakeBackend, c resp.Cmd) resp.Reply {
				return resp.Bulks(c.Args[1:]...)
			}),
		})
	})
	c := dial(t, addr)
	c.send("SETNX k 1\r\nEXPIRE k 10\r\n")
	c.want(":1\r\n:1\r\n")
	c.send("SETNX a 1\r\nDOCTOR \"\\x00sight1\" x\r\nSETNX b 1\r\n")
	c.want(":1\r\n*2\r\n$7\r\n\x00sight1\r\n$1\r\nx\r\n:1\r\n")
	c.send("MULTI\r\nGET a\r\nDOCTOR\r\nEXEC\r\n")
	c.want("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n$-1\r\n*0\r\n")
	fake.mu.Lock()
	defer fake.mu.Unlock()
	last := max(0, len(fake.requests)-4)
	if !slices.Equal(fake.requests[last:], []int{1, 1, 1, 2}) {
		t.Fatal("requests of", fake.requests)
	}
	for i, observed := range []bool{false, true, false, true} {
		text := fake.observed[last+i]
		r, err := lockuse.Read(text)
		if err != nil || !observed && text != "" ||
			observed && (r.Node != "n1" || len(r.Observations) != 1 || r.Observations[0].Kind != lockuse.LeaseAfterwards) {
			t.Errorf("request %d has %+v, %v", i, r, err)
		}
	}
}
