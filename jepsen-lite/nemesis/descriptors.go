package nemesis

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"lockd/jepsen-lite/target"
)

// A node gets scarceRoom file descriptors more than it has open, and more clients connect than that. The node reserves
// 256 of them for itself and for new connections to its peer port, so few of the clients are accepted. Strangers to the
// peer port send nothing.
const (
	scarceRoom      = 276
	scarceClients   = 400
	scarceStrangers = 300
	scarceDiallers  = 8
	scarceStay      = time.Second // of a stranger
	scarceWrites    = time.Second // between two writes that fill a file of the log
)

// descriptors leaves a node few file descriptors, and connects many clients. The node must reject connections that it
// has no descriptors for, and go on: its log needs new files meanwhile.
func descriptors(f *field, fault Fault) (string, func()) {
	who, strangers, _ := strings.Cut(fault.Variant, " ")
	node := f.victims(who, fault.Dice)[0]
	what := fmt.Sprintf("descriptors %s %s: %d more, %d clients", fault.Variant, node, scarceRoom, scarceClients)
	if err := f.Target.LimitFiles(node, scarceRoom); err != nil {
		return fmt.Sprintf("%s (%v)", what, err), nil
	}
	ctx, leave := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for range scarceDiallers {
		all.Go(func() {
			idle(ctx, scarceClients/scarceDiallers, func(int) (*target.Conn, error) { return f.clients.dialNode(node) })
		})
		if strangers != "" {
			all.Go(func() { intrude(ctx, f.Target.PeerAddr(node), scarceStrangers/scarceDiallers) })
		}
	}
	value := strings.Repeat("x", lackBytes)
	stop := repeat(scarceWrites, func() {
		_, _ = f.Target.Do(f.others(node)[0], scarceWrites, "SET", provokeKey, value) // it fails while no node leads
	})
	return what, func() {
		stop()
		_ = f.Target.LimitFiles(node, 0) // a new process starts with the full limit
		leave()
		all.Wait()
	}
}

// intrude keeps count silent connections to an address open, each for a while.
func intrude(ctx context.Context, addr string, count int) {
	open := make([]net.Conn, count)
	defer func() {
		for _, c := range open {
			if c != nil {
				_ = c.Close()
			}
		}
	}()
	for i := 0; sleep(ctx, scarceStay/time.Duration(count)); i = (i + 1) % count {
		if open[i] != nil {
			_ = open[i].Close()
		}
		// a node without a free descriptor accepts it later, or never
		open[i], _ = net.DialTimeout("tcp", addr, time.Second)
	}
}
