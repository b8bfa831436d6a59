package main

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"lockd/cluster"
	"lockd/resp"
)

// notifyEvery is how often a node looks whether it became ready, or waits for somebody else.
const notifyEvery = time.Second

// notifier tells the service manager that started this process, systemd, what the node does. Where there is none
// nothing happens: only a service has NOTIFY_SOCKET.
type notifier struct {
	send  func(state string) error
	ready func() []resp.Field // as cluster.Node.Ready
	moves func()              // returns if the node moves
	log   *slog.Logger

	mu      sync.Mutex
	started bool // READY was said
	ending  bool // and nothing but STOPPING is to be
	status  string
	failed  bool // the manager was not to be reached, which is said once
}

// newNotifier reads from the environment who is to be told.
func newNotifier(node *cluster.Node, log *slog.Logger) *notifier {
	return &notifier{
		send: func(state string) error {
			_, err := daemon.SdNotify(false, state)
			return err
		},
		ready: node.Ready,
		moves: func() { movesOf(node) },
		log:   log,
	}
}

// movesOf asks the node what INFO says. That takes the lock around the machine, under which entries are applied,
// and needs no leader: who waits for others moves.
func movesOf(node *cluster.Node) {
	node.Do(context.Background(), resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"INFO"}}}})
}

// watch says READY as soon as /readyz would, and for whom the node waits. Where the unit has WatchdogSec, it says
// four times within that time that the node moves: if one that was ready does not, systemd ends and starts it.
func (n *notifier) watch(ctx context.Context, watchdog time.Duration) {
	look := time.NewTicker(notifyEvery)
	defer look.Stop()
	var due <-chan time.Time
	if watchdog > 0 {
		pings := time.NewTicker(watchdog / 4)
		defer pings.Stop()
		due = pings.C
	}
	n.look()
	for {
		select {
		case <-look.C:
			n.look()
		case <-due:
			n.moves()
			n.tell(daemon.SdNotifyWatchdog)
		case <-ctx.Done():
			return
		}
	}
}

// watchdogTime is the unit's WatchdogSec; 0: it has none.
func watchdogTime(log *slog.Logger) time.Duration {
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("systemd's watchdog is not served", "why", err)
		return 0
	}
	return every
}

// look says what has changed since the last look.
func (n *notifier) look() {
	status := "serving"
	if waits := waitsFor(n.ready()); waits != "" {
		status = "not ready: " + waits
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if status == n.status || n.ending {
		return
	}
	n.status = status
	state := "STATUS=" + status
	if status == "serving" && !n.started {
		n.started = true
		state = daemon.SdNotifyReady + "\n" + state
	}
	n.deliver(state)
}

// waitsFor is why a node is not ready, in one line; "": it is.
func waitsFor(checks []resp.Field) string {
	var failed []string
	for _, c := range checks {
		if c.Value != "" {
			failed = append(failed, strings.Join(strings.Fields(c.Value), " "))
		}
	}
	return strings.Join(failed, "; ")
}

// reloading says that files are read again while reload does so. A node that is not ready yet
// says nothing: the end of it is said by READY too.
func (n *notifier) reloading(reload func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	told := n.started && !n.ending
	if told {
		n.deliver(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
	}
	reload()
	if told {
		n.deliver(daemon.SdNotifyReady)
	}
}

// stopping says that the node ends, and nothing more is said.
func (n *notifier) stopping() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ending = true
	n.deliver(daemon.SdNotifyStopping + "\nSTATUS=stopping")
}

// tell sends a state unless the node is stopping.
func (n *notifier) tell(state string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.ending {
		n.deliver(state)
	}
}

// deliver sends a state; mu is held, so that states arrive in order.
func (n *notifier) deliver(state string) {
	if err := n.send(state); err != nil && !n.failed {
		n.failed = true
		n.log.Warn("the service manager cannot be told what this node does: is NOTIFY_SOCKET its socket?", "why", err)
	}
}
