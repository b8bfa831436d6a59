package target

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Nodes implements Cluster.
func (f *fleet) Nodes() []string { return f.names }

// Net implements Cluster.
func (f *fleet) Net() *Net { return f.net }

// ID implements Cluster.
func (f *fleet) ID(node string) string {
	n := f.nodes[node]
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.id
}

// Leader implements Cluster. A leader that was cut off may think that it still leads, so each call begins at another
// node.
func (f *fleet) Leader() string {
	offset := int(time.Now().UnixNano()>>10) % len(f.names)
	for i := range f.names {
		name := f.names[(i+offset)%len(f.names)]
		r, err := f.Do(name, askMax, "ROLE")
		if err == nil && len(r.Elems) > 0 && r.Elems[0].Str == "master" {
			return name
		}
	}
	return ""
}

// Serving implements Cluster. A node of OtherBuild is refused by the others, whatever it remembers of the members.
func (f *fleet) Serving(node string) bool {
	id := f.ID(node)
	r, err := f.Do(node, time.Second, "LOCKD", "MEMBERS")
	return err == nil && !f.hasOtherBuild(node) && slices.ContainsFunc(r.Elems, func(m Reply) bool {
		text := strings.Join(m.Texts(), " ")
		return strings.HasPrefix(text, "id "+id+" ") && strings.Contains(text, " suffrage voter ")
	})
}

// hasOtherBuild reports whether the next process of a node is of OtherBuild.
func (f *fleet) hasOtherBuild(node string) bool {
	n := f.nodes[node]
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.otherBuild
}

// newestSnapshot is the index of the newest snapshot that any node has told of. It is kept, since the node that has
// the snapshot may not answer the next time.
type newestSnapshot struct {
	mu    sync.Mutex
	index int64
}

// raise sets the index to at least index, and returns it.
func (s *newestSnapshot) raise(index int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index = max(s.index, index)
	return s.index
}

// Lacking implements Cluster.
func (f *fleet) Lacking() (nodes []string) {
	has, saved := map[string]int64{}, int64(0)
	for _, name := range f.names {
		r, err := f.Do(name, askMax, "INFO", "raft")
		if err != nil {
			continue
		}
		snapshot := infoNumber(r.Text(), "last_snapshot_index")
		has[name] = max(snapshot, infoNumber(r.Text(), "last_log_index"))
		saved = max(saved, snapshot)
	}
	newest := f.newest.raise(saved)
	for _, name := range f.names {
		if index, answered := has[name]; answered && index < newest {
			nodes = append(nodes, name)
		}
	}
	return nodes
}

// infoNumber returns a number of INFO's reply, or 0 if there is none of that name.
func infoNumber(info, name string) int64 {
	_, text, _ := strings.Cut(info, "\n"+name+":")
	text, _, _ = strings.Cut(text, "\r")
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// Endpoint implements Connections.
func (f *fleet) Endpoint(id, attempt int) (addr, node string, err error) {
	name := f.names[(id+attempt)%len(f.names)]
	return f.nodes[name].client.Addr(), name, nil
}

// Connect implements Connections.
func (f *fleet) Connect(addr string, timeout time.Duration) (*Conn, error) {
	return dial(f.net.on(), addr, timeout, f.tls.config())
}

// Dial implements Connections.
func (f *fleet) Dial(node string, timeout time.Duration) (*Conn, error) {
	n := f.nodes[node]
	start, ok := n.present()
	if !ok {
		return nil, errNotRunning
	}
	c, err := dial(f.net.on(), n.addr, timeout, f.tls.config())
	if err == nil {
		n.answered.Store(int64(start))
	}
	return c, err
}

var errNotRunning = errors.New("it does not run")

// askMax bounds a question to a node about itself.
const askMax = 300 * time.Millisecond

// Do implements Connections.
func (f *fleet) Do(node string, timeout time.Duration, args ...string) (Reply, error) {
	c, err := f.Dial(node, timeout)
	if err != nil {
		return Reply{}, err
	}
	defer c.Close()
	return c.Do(timeout, args...)
}

// Knock implements Connections.
func (f *fleet) Knock(node string, d Door) (net.Conn, error) {
	n := f.nodes[node]
	switch d {
	case Inside:
		return knock(f.strangers, n.addr, f.tls.config())
	case ForPeers:
		return knock(f.strangers, n.peerAddr, nil)
	case ForHTTP:
		return knock(f.strangers, n.httpAddr, nil)
	}
	return knock(f.strangers, n.addr, nil)
}

// Ports implements Connections.
func (f *fleet) Ports(node string) []*Proxy { return f.nodes[node].doors[1:] }

// PeerAddr implements Connections.
func (f *fleet) PeerAddr(node string) string { return f.nodes[node].peerAddr }

// openWays opens a proxy for each ordered pair of nodes, and for each node with itself. A proxy cannot look into TLS to
// see who connects, so the port tells. The peer address that the members know leads nowhere.
func (f *fleet) openWays() error {
	for _, from := range f.names {
		var ways []string
		for _, to := range f.names {
			n := f.nodes[to]
			way, err := newProxy(f.net, to, n.peerAddr, callerIs(from))
			if err != nil {
				return err
			}
			f.ways = append(f.ways, way)
			n.doors = append(n.doors, way)
			ways = append(ways, n.peer.Addr()+"="+way.Addr())
		}
		f.nodes[from].env = append(f.nodes[from].env, waysVar+"="+strings.Join(ways, ","))
	}
	return nil
}

// testBuildMax bounds the wait for a node that was just started to listen on its fault port.
const testBuildMax = 10 * time.Second

// checkTestBuilds fails unless all nodes are test builds. Others do not dial by the ways of openWays, and would never
// find each other.
func (t *lockd) checkTestBuilds() error {
	for until := time.Now().Add(testBuildMax); ; time.Sleep(50 * time.Millisecond) {
		silent := slices.IndexFunc(t.names, func(name string) bool {
			_, err := t.Fault(name, "stat")
			return err != nil
		})
		if silent < 0 {
			return nil
		}
		if name := t.names[silent]; time.Now().After(until) {
			return fmt.Errorf("--tls needs a server that is built with -tags faults: the fault port of node %s does "+
				"not answer", name)
		}
	}
}
