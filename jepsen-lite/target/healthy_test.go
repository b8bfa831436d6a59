package target

import (
	"context"
	"slices"
	"testing"
	"time"
)

// A node that is down is started although another one, which is asked first, takes no write. If it ends again, it is
// dead.
func TestHealthyStartsAll(t *testing.T) {
	l := newLockdOver(&fleet{net: NewNet(), names: []string{"n1", "n2"}, nodes: map[string]*lockdNode{}}, nil)
	for name, script := range map[string]string{"n1": "exec sleep 60", "n2": "echo no; exit 3"} {
		p, n := shell(t, script), &lockdNode{}
		n.name, n.path, n.args, n.logPath = name, p.path, p.args, p.logPath
		var err error
		if n.client, err = newProxy(l.net, name, "127.0.0.1:1", anyClient); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(n.client.Close)
		t.Cleanup(n.kill)
		l.nodes[name] = n
	}
	for range 2 { // it dies by itself, and once more while the cluster is asked whether it is well
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if err := l.Healthy(ctx); err == nil {
			t.Error("nobody takes writes")
		}
		cancel()
		waitEnd(t, &l.nodes["n2"].proc)
	}
	if dead := l.Dead(); !slices.Equal(dead, []string{"n2"}) {
		t.Errorf("dead: %q", dead)
	}
}
