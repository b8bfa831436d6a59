package system

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"lockd/resp"
)

// updateEvery is the interval at which the status is updated: ready, or the members that the node waits for.
const updateEvery = time.Second

// Notifier tells systemd what a node does; its methods may be called concurrently. Without systemd nothing happens: only
// a service has NOTIFY_SOCKET.
type Notifier struct {
	send  func(state string) error
	ready func() []resp.Field
	moves func()
	log   *slog.Logger

	mu      sync.Mutex
	started bool // READY was said
	ending  bool // and nothing but STOPPING is to be
	status  string
	failed  bool // the manager was not to be reached, which is said once
}

// NewNotifier reads from the environment where systemd listens. ready is cluster.Node.Ready; moves returns if the node moves.
func NewNotifier(ready func() []resp.Field, moves func(), log *slog.Logger) *Notifier {
	return &Notifier{
		send: func(state string) error {
			_, err := daemon.SdNotify(false, state)
			return err
		},
		ready: ready, moves: moves, log: log,
	}
}

// Watch sends READY as soon as /readyz succeeds, and a status that names the members that the node waits for. If the
// unit has WatchdogSec, Watch sends four keep-alives per period while the node makes progress; without them systemd
// restarts the node.
func (n *Notifier) Watch(ctx context.Context, watchdog time.Duration) {
	updates := time.NewTicker(updateEvery)
	defer updates.Stop()
	var due <-chan time.Time
	if watchdog > 0 {
		pings := time.NewTicker(watchdog / 4)
		defer pings.Stop()
		due = pings.C
	}
	n.update()
	for {
		select {
		case <-updates.C:
			n.update()
		case <-due:
			n.moves()
			n.notify(daemon.SdNotifyWatchdog)
		case <-ctx.Done():
			return
		}
	}
}

// WatchdogTime is the unit's WatchdogSec; 0: it has none.
func WatchdogTime(log *slog.Logger) time.Duration {
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("systemd's watchdog is not served", "why", err)
		return 0
	}
	return every
}

// update sends the status if it has changed.
func (n *Notifier) update() {
	status := "serving"
	if waits := waitsFor(n.ready()); waits != "" {
		status = "not ready: " + waits
	}
	n.tell(func() error {
		if status == n.status || n.ending {
			return nil
		}
		n.status = status
		state := "STATUS=" + status
		if status == "serving" && !n.started {
			n.started = true
			state = daemon.SdNotifyReady + "\n" + state
		}
		return n.send(state)
	})
}

// waitsFor returns, in one line, why a node is not ready; "" if it is.
func waitsFor(checks []resp.Field) string {
	var failed []string
	for _, c := range checks {
		if c.Value != "" {
			failed = append(failed, strings.Join(strings.Fields(c.Value), " "))
		}
	}
	return strings.Join(failed, "; ")
}

// Reloading announces a reload while reload runs. A node that is not ready yet announces nothing, because READY also
// ends a reload.
func (n *Notifier) Reloading(reload func()) {
	ready := false
	n.tell(func() error {
		if ready = n.started && !n.ending; !ready {
			return nil
		}
		return n.send(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
	})
	reload()
	if ready {
		n.notify(daemon.SdNotifyReady)
	}
}

// Stopping announces that the node stops, and is the last announcement.
func (n *Notifier) Stopping() {
	n.tell(func() error {
		n.ending = true
		return n.send(daemon.SdNotifyStopping + "\nSTATUS=stopping")
	})
}

// notify sends a state unless the node is stopping.
func (n *Notifier) notify(state string) {
	n.tell(func() error {
		if n.ending {
			return nil
		}
		return n.send(state)
	})
}

// tell sends a state under the lock, so that states arrive in order, and then logs if that fails.
func (n *Notifier) tell(send func() error) {
	n.mu.Lock()
	err := send()
	first := err != nil && !n.failed
	n.failed = n.failed || err != nil
	n.mu.Unlock()
	if first {
		n.log.Warn("the service manager cannot be told what this node does: is NOTIFY_SOCKET its socket?", "why", err)
	}
}
