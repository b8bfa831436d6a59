package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"lockd/jepsen-lite/model"
	"lockd/jepsen-lite/target"
)

// The state of --state is loaded by scripts, so that it is in the nodes' snapshots and not in their logs: for each MiB,
// stateKeys keys of about a KiB.
const (
	stateKeys   = 1000
	stateBytes  = 1 << 20 / stateKeys // of a value, without its number
	statePiece  = 500                 // keys that are written or read at once
	stateMax    = 2048                // MiB
	statePrefix = "state:"
	stateScript = "for i = ARGV[1], ARGV[2] do redis.call('set', KEYS[1] .. i, ARGV[3] .. i) end return ARGV[2] - " +
		"ARGV[1] + 1"
	stateAnswer  = 10 * time.Second
	stateLoadMax = 5 * time.Minute
	stateReadMax = 2 * time.Minute
)

// stateValue is the beginning of each value.
var stateValue = strings.Repeat("s", stateBytes)

// bulk calls do for one piece of the state after the other, on one connection after the other.
func (s *session) bulk(ctx context.Context, do func(c *target.Conn, first, last int) error) error {
	for attempt, first := 0, 1; first <= s.cmd.State*stateKeys; attempt++ {
		addr, _, err := s.target.Endpoint(0, attempt)
		if err != nil {
			return err
		}
		c, err := s.target.Connect(addr, time.Second)
		for err == nil && first <= s.cmd.State*stateKeys {
			if err = do(c, first, first+statePiece-1); err == nil {
				first += statePiece
			}
		}
		if c != nil {
			c.Close()
		}
		if wrong := (wrongState{}); errors.As(err, &wrong) || ctx.Err() != nil {
			return err
		}
		if err != nil {
			wait(ctx, 50*time.Millisecond)
		}
	}
	return nil
}

// wrongState is an answer that another try cannot correct.
type wrongState struct{ text string }

func (w wrongState) Error() string { return w.text }

// loadState writes the state, and makes all nodes take a snapshot of it.
func (s *session) loadState(ctx context.Context) error {
	if s.cmd.State == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, stateLoadMax)
	defer cancel()
	began := time.Now()
	err := s.bulk(ctx, func(c *target.Conn, first, last int) error {
		r, err := c.Do(stateAnswer, "EVAL", stateScript, "1", statePrefix, strconv.Itoa(first), strconv.Itoa(last),
			stateValue)
		if err == nil && r.IsErr() {
			err = errors.New(r.Str)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("--state %d: %w", s.cmd.State, err)
	}
	fmt.Fprintf(s.out, "%d keys, %d MiB, loaded in %.1f s\n",
		s.cmd.State*stateKeys, s.cmd.State, time.Since(began).Seconds())
	return s.target.Converged(ctx)
}

// checkState reads the whole state. That it is the same on all nodes is checked before.
func (s *session) checkState(ctx context.Context, v *model.Verdict) {
	if s.cmd.State == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, stateReadMax)
	defer cancel()
	err := s.bulk(ctx, func(c *target.Conn, first, last int) error {
		keys := []string{"MGET"}
		for i := first; i <= last; i++ {
			keys = append(keys, statePrefix+strconv.Itoa(i))
		}
		r, err := c.Do(stateAnswer, keys...)
		if err != nil {
			return err
		}
		return checkPiece(r, first, last)
	})
	v.Stake(model.RuleState, 1)
	if wrong := (wrongState{}); errors.As(err, &wrong) {
		v.Add("state lost", nil, "%v", err)
	} else if err != nil {
		v.Undecided = append(v.Undecided, fmt.Sprintf("the state of %d MiB was not read: %v", s.cmd.State, err))
	}
}

// checkPiece reports what is wrong with the values of keys.
func checkPiece(r target.Reply, first, last int) error {
	if r.IsErr() {
		return errors.New(r.Str) // another try may succeed
	}
	if len(r.Elems) != last-first+1 {
		return wrongState{fmt.Sprintf("MGET of %d keys is answered with %d values", last-first+1, len(r.Elems))}
	}
	wrong, which := 0, ""
	for i, e := range r.Elems {
		if key := first + i; e.Nil || e.Str != stateValue+strconv.Itoa(key) {
			if wrong++; wrong == 1 {
				which = fmt.Sprintf("%s%d is %.20q...%.20q",
					statePrefix, key, e.Text(), e.Text()[max(0, len(e.Text())-20):])
			}
		}
	}
	if wrong > 0 {
		return wrongState{fmt.Sprintf("%d of %d keys from %s%d on do not have the value that was loaded: %s",
			wrong, len(r.Elems), statePrefix, first, which)}
	}
	return nil
}
