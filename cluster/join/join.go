// Package join makes a node a member of a cluster whose client addresses it knows.
package join

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"lockd/cluster/clock"
	"lockd/cluster/group"
	"lockd/cluster/membership"
	"lockd/internal/loglimit"
	"lockd/resp"
)

// Limits and pauses of a node that joins.
const (
	pauseMin = 500 * time.Millisecond // between the first two tries; it doubles up to pauseMax
	pauseMax = 5 * time.Second
	// TryMax bounds the attempts to join a cluster that does not make the node a member.
	TryMax = 10 * time.Minute
	// AddWaitMax bounds the wait of LOCKD ADD until the new member has caught up. The member continues to catch up
	// afterwards.
	AddWaitMax = 10 * time.Second
)

// Joiner makes a node a member of a cluster by asking members at their client ports. It speaks to them as a client,
// since the node is not their peer yet.
type Joiner struct {
	Self      string // id of the node
	Advertise func() string
	Cluster   func() string // id of the cluster whose data the node has; "": none
	IsVoter   func() bool   // reports whether the node has its vote
	TLS       func() *tls.Config
	// Dial connects to a client port on a network of simulated machines; nil: TCP does.
	Dial  func(addr string, timeout time.Duration) (net.Conn, error)
	Clock clock.Clock
	Log   *slog.Logger
	Stop  <-chan struct{} // closed when the node stops
}

// Run asks the members at addrs, host:port or tls://host:port, in turn. It returns when the node has its vote, at once
// if it has one already. It retries after failures that may pass, for at most TryMax while the node is no member; it
// returns a refusal. A node with data is refused if another cluster answers.
func (j *Joiner) Run(ctx context.Context, addrs []string, password string) error {
	if err := j.check(ctx, addrs, password); err != nil {
		return err
	}
	var logged loglimit.Limiter
	since, pause := j.Clock.Monotonic(), pauseMin
	for try := 0; ; try++ {
		if j.IsVoter() {
			return nil
		}
		through := addrs[try%len(addrs)]
		answer, err := j.ask(ctx, through, password, "LOCKD", "ADD", j.Self, j.Advertise())
		switch {
		case err == nil && answer == "+OK":
			return nil
		case err == nil && refusesForGood(answer):
			return fmt.Errorf("%s refuses this node: %s", through, answer[1:])
		case err == nil:
			err = errors.New(answer[1:])
		}
		if codeOf(answer) == CodeCatchingUp {
			since = j.Clock.Monotonic()
		}
		if j.Clock.Monotonic()-since >= TryMax {
			return fmt.Errorf("no member of the cluster has added this node in %s, and it gives up: is there a cluster with "+
				"a leader at %s, and is that a client address? (last: %w)", TryMax, through, err)
		}
		if _, ok := logged.Allow(err.Error()); ok {
			j.Log.Info("joining the cluster", "through", through, "state", err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("joining through %s: %w (last: %w)", through, ctx.Err(), err)
		case <-j.Stop:
			return group.ErrHalted
		}
		if try%len(addrs) == len(addrs)-1 {
			pause = min(2*pause, pauseMax)
		}
	}
}

// check compares the cluster of a node with data with the cluster at the addresses that it has to join. The node
// continues in its own cluster, and must not do so silently.
func (j *Joiner) check(ctx context.Context, addrs []string, password string) error {
	mine := j.Cluster()
	for _, through := range addrs {
		if mine == "" {
			return nil
		}
		if other := j.askCluster(ctx, through, password); other != "" && other != mine {
			return fmt.Errorf("this node has data of cluster %s, and %s, which it is to join, is of cluster %s: start it "+
				"without --join, or, if its data are not needed, with an empty data folder", mine, through, other)
		}
	}
	return nil
}

// askCluster returns the id of the cluster at a client address, or "" if it gets none.
func (j *Joiner) askCluster(ctx context.Context, addr, password string) string {
	ctx, cancel := context.WithTimeout(ctx, askClusterMax)
	defer cancel()
	info := ""
	_, _ = j.asking(ctx, addr, password, []string{"INFO", "raft"}, func(line string, in *bufio.Reader) error {
		size, err := strconv.Atoi(strings.TrimPrefix(line, "$"))
		if err != nil || size < 0 || size > infoMax {
			return errors.New(line)
		}
		text := make([]byte, size)
		_, err = io.ReadFull(in, text)
		info = string(text)
		return err
	})
	_, rest, _ := strings.Cut(info, "cluster_id:")
	id, _, _ := strings.Cut(rest, "\r\n")
	return id
}

// Limits of the question for the id of a cluster.
const (
	askClusterMax = 2 * time.Second
	infoMax       = 64 << 10 // bytes of an answer
)

// Codes of the errors of LOCKD ADD after which a node asks again: the command may be repeated.
const (
	CodeCatchingUp = "TRYAGAIN" // the node is a member, and gets its vote once it has caught up
	CodeInDoubt    = "UNKNOWN"  // a leader was lost in the middle of the change
)

// codeOf returns the code of an error, its first word; "" of another answer.
func codeOf(answer string) string {
	said, isErr := strings.CutPrefix(answer, "-")
	if !isErr {
		return ""
	}
	code, _, _ := strings.Cut(said, " ")
	return code
}

// refusesForGood reports whether another LOCKD ADD would be answered the same way.
func refusesForGood(answer string) bool {
	switch codeOf(answer) {
	case "ERR", "NOAUTH", "WRONGPASS", "DENIED":
		return true
	}
	return false
}

// ask sends one command to a client port and returns the first line of the reply.
func (j *Joiner) ask(ctx context.Context, addr, password string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, AddWaitMax+5*time.Second)
	defer cancel()
	return j.asking(ctx, addr, password, args, func(string, *bufio.Reader) error { return nil })
}

// asking is ask with a context; rest reads the lines after the first one.
func (j *Joiner) asking(
	ctx context.Context, addr, password string, args []string, rest func(line string, in *bufio.Reader) error,
) (string, error) {
	conn, err := j.dial(ctx, addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	in := bufio.NewReader(conn)
	if password != "" {
		if line, err := exchange(conn, in, "AUTH", password); err != nil || line != "+OK" {
			return line, err
		}
	}
	line, err := exchange(conn, in, args...)
	if err == nil {
		err = rest(line, in)
	}
	return line, err
}

// dial connects to a client port, by TLS if the address says so.
func (j *Joiner) dial(ctx context.Context, addr string) (net.Conn, error) {
	hostPort, secured := strings.CutPrefix(addr, membership.TLSScheme)
	switch {
	case !secured && j.Dial != nil:
		deadline, _ := ctx.Deadline() // each question has one
		return j.Dial(hostPort, time.Until(deadline))
	case !secured:
		return (&net.Dialer{}).DialContext(ctx, "tcp", hostPort)
	case j.TLS == nil:
		return nil, fmt.Errorf("%s speaks TLS, and this node has no certificates", addr)
	}
	return (&tls.Dialer{Config: j.TLS()}).DialContext(ctx, "tcp", hostPort)
}

func exchange(conn net.Conn, in *bufio.Reader, args ...string) (string, error) {
	if _, err := conn.Write(resp.AppendCommand(nil, args...)); err != nil {
		return "", err
	}
	line, err := in.ReadString('\n')
	line = strings.TrimRight(line, "\r\n")
	if err == nil && line == "" {
		err = errors.New("an empty reply")
	}
	return line, err
}
