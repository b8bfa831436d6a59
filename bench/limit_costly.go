package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"time"

	"lockd/bench/load"
)

// costly is a request that costs much, because of a state that its client has made before.
type costly struct {
	name    string
	follow  string // a command by which a client follows what happens, at each node; "": nobody does
	state   [][]string
	request []string
}

// Sizes of the states, as large as lockd lets a client make them, or large enough to reach the most work of a request.
const (
	costlyHolders  = 64      // of a hash
	costlySharers  = 1000    // of a lock that is SHARED
	costlyPatterns = 2000    // of a subscriber
	costlyPrefixes = 512     // of a client that tracks
	costlyMembers  = 300_000 // of a set
	costlyPart     = 5000    // commands of a script that makes a state: it is not refused
	costlyName     = 250     // bytes of a channel that all patterns are compared with
)

// costlyRequests returns the requests; a script does what it does a number of times.
func costlyRequests(times int) []costly {
	again := func(body string) []string {
		return []string{"EVAL", fmt.Sprintf("for i = 1, %d do %s end return 1", times, body), "0"}
	}
	do := func(script string) []string { return []string{"EVAL", script, "0"} }
	var patterns, prefixes strings.Builder
	for i := range costlyPatterns {
		fmt.Fprintf(&patterns, " *%sb%d", strings.Repeat("a", costlyName/2), i)
	}
	for i := range costlyPrefixes {
		fmt.Fprintf(&prefixes, " PREFIX %sa", strings.Repeat("z", i))
	}
	inParts := func(n int, body string) (scripts [][]string) {
		for from := 0; from < n; from += costlyPart {
			scripts = append(scripts, do(fmt.Sprintf("for i = %d, %d do %s end", from+1, min(n, from+costlyPart), body)))
		}
		return scripts
	}
	return []costly{
		{"leases of a lock of 64", "", [][]string{do(fmt.Sprintf("for i = 1, %d do redis.call('HSET', 'hash', "+
			"'0b77e1d4-5b0e-4e7f-9a3b-'..string.format('%%012d', i)..':1', '1') end redis.call('PEXPIRE', 'hash', 600000)",
			costlyHolders))}, again("redis.call('PEXPIRE', 'hash', 600000 + i)")},
		{"a lock of 1,000", "", [][]string{do(fmt.Sprintf("for i = 1, %d do redis.call('LOCK', 'shared', 't'..i, 'PX', 600000, "+
			"'SHARED') end", costlySharers))}, again("redis.call('LOCK', 'shared', 't'..(i % 1000), 'PX', 600000, 'SHARED')")},
		{"patterns", "PSUBSCRIBE" + patterns.String(), nil, again("redis.call('PUBLISH', string.rep('a', " + fmt.Sprint(costlyName) + "), 'x')")},
		{"prefixes", "CLIENT TRACKING ON BCAST" + prefixes.String(), nil, again("redis.call('SET', string.rep('z', 512), 'x')")},
		{"a history", "", slices.Concat(
			inParts(times, "redis.call('SET', 'door'..i, 't', 'PX', 600000) redis.call('DEL', 'door'..i)"),
			inParts(times, "redis.call('SET', 'door', 't'..i, 'PX', 600000)")), []string{"LOCKS", "DOCTOR"}},
		{"sets", "", inParts(costlyMembers, "redis.call('SADD', 'many', i)"), []string{"SUNIONSTORE", "sum", "many", "many", "many", "many"}},
		{"many keys", "", nil, again("redis.call('SET', 'key'..i, string.rep('x', 100))")},
		{"a pattern of keys", "", nil, []string{"KEYS", "*k*e*y*1*2*3*"}},
		{"a script without end", "", nil, do("while true do end")},
		{"the end of all", "", nil, []string{"FLUSHALL"}},
	}
}

// measureCostly lets a client send costly requests to the leader, and measures how long clients of the other nodes wait.
// The followers execute a request, all at the same time, when the leader has. So there are no more nodes than cores: two
// that share one would need longer.
func measureCostly(ctx context.Context, s *stage) ([]finding, error) {
	all, err := s.lockd(ctx, "lockd", max(2, min(runtime.NumCPU(), 3)))
	if err != nil {
		return nil, err
	}
	lead, err := leader(ctx, all)
	if err != nil {
		return nil, err
	}
	var worst, following longestWait
	for _, c := range costlyRequests(s.Costly) {
		took, answer, err := c.once(ctx, s, all, lead)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		fmt.Fprintf(s.progress, "%s: others wait for %.3f s at most; it is answered %s\n", c.name, took.Seconds(), answer)
		if c.follow == "" {
			worst.add(took, c.name)
		} else {
			following.add(took, c.name)
		}
	}
	of := fmt.Sprintf("requests to %d nodes", len(all))
	return []finding{worst.finding(of), following.finding(of)}, nil
}

// longestWait is the longest of some waits, and what was waited for.
type longestWait struct {
	time.Duration
	name string
	of   int
}

func (w *longestWait) add(took time.Duration, name string) {
	if w.of++; took > w.Duration {
		w.Duration, w.name = took, name
	}
}

func (w *longestWait) finding(of string) finding {
	return finding{w.Seconds(), fmt.Sprintf("%s, of %d %s", w.name, w.of, of)}
}

// once makes the state, and measures the longest wait of others while the request is answered and for some time after.
func (c costly) once(ctx context.Context, s *stage, all []*proc, lead *proc) (time.Duration, string, error) {
	if c.follow != "" {
		for _, p := range all {
			conn, err := follow(ctx, p.addr, c.follow)
			if err != nil {
				return 0, "", err
			}
			defer conn.Close()
		}
	}
	for _, command := range c.state {
		if _, err := load.Ask(ctx, lead.addr, command...); err != nil {
			return 0, "", fmt.Errorf("its state: %w", err)
		}
	}
	others := slices.DeleteFunc(slices.Clone(all), func(p *proc) bool { return p == lead })
	pulse := startPulse(ctx, others)
	answer, err := c.ask(ctx, s, lead)
	pulse.stop()
	if err == nil && len(pulse.others) > 0 {
		err = fmt.Errorf("another client was answered %s", pulse.others[0])
	}
	return pulse.longest, answer, err
}

// ask sends the request to a node whose clients have been served for some time, and lets what follows it come.
func (c costly) ask(ctx context.Context, s *stage, node *proc) (answer string, err error) {
	if err := pause(ctx, s.Time); err != nil {
		return "", err
	}
	began := time.Now()
	said := "done"
	if _, err := load.Ask(ctx, node.addr, c.request...); isRefusal(err) {
		said = err.Error()
	} else if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s after %.3f s", said, time.Since(began).Seconds()), pause(ctx, s.Time)
}

// refusals begin the answers of servers to a request that costs too much.
var refusals = []string{"ERR this request has done as much as one may", "ERR Script stopped: it needs more than its limit"}

// isRefusal reports whether a server has answered that a request costs too much.
func isRefusal(err error) bool {
	return err != nil && slices.ContainsFunc(refusals, func(text string) bool { return strings.Contains(err.Error(), text) })
}

// follow opens a connection that follows what happens at a node. It reads, and forgets, what it is sent.
func follow(ctx context.Context, addr, command string) (net.Conn, error) {
	words := strings.Fields(command)
	text := fmt.Sprintf("HELLO 3\r\n*%d\r\n", len(words))
	for _, word := range words {
		text += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
	}
	c, err := converse(ctx, addr, text+"PING\r\n", func(r io.Reader) error { return awaitPong(bufio.NewScanner(r)) })
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", addr, words[0], err)
	}
	go func() { _, _ = io.Copy(io.Discard, c) }() // until it is closed
	return c, nil
}

// awaitPong reads the answers up to that of PING. None is an error.
func awaitPong(lines *bufio.Scanner) error {
	for lines.Scan() {
		switch line := lines.Text(); {
		case line == "+PONG":
			return nil
		case strings.HasPrefix(line, "-"):
			return errors.New(line)
		}
	}
	return cmp.Or(lines.Err(), io.ErrUnexpectedEOF)
}
