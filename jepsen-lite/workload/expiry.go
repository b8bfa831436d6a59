package workload

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockd/jepsen-lite/target"
)

// Looks at a key after its time.
const (
	// how long it is looked at
	lookAfter = 15 * time.Second
	// how often it must be seen absent
	looksAfter = 4
)

// newExpiry sets a key with a time to live, by a command or a script, and looks at it through changing nodes until
// shortly after its end. Now and then it writes another key.
func newExpiry(env *Env) Plan {
	return Plan{Setup: startClock, Step: func(c *Client) {
		key, value, ms := c.Key("e"+itoa(env.Unique())), itoa(env.Unique()), timeToLive(c)
		call := Call{
			Op:   "set",
			Key:  key,
			In:   []string{value, itoa(ms)},
			Cmds: [][]string{{"SET", key, value, "PX", itoa(ms)}},
			Out:  word("OK"),
		}
		if c.Rand.IntN(4) > 0 {
			call.Op, call.Cmds, call.Out = "grant", seeing(c, "EVAL", grantScript, key, value, itoa(ms)), seen
		}
		if _, ok := c.Do(call); !ok {
			return
		}
		end := time.Now().Add(time.Duration(ms) * time.Millisecond)
		after, leads := 0, true // looks that did not find the key; whether the node may lead
		for until := end.Add(lookAfter); time.Now().Before(until) && after < looksAfter && c.ctx.Err() == nil; {
			if leads || c.Rand.IntN(leadsOften) == 0 {
				leads = askTerm(c)
			}
			left, ok := lookAt(c, key)
			switch {
			case ok && left == gone:
				after++
			case ok && left > 0:
				end = time.Now().Add(left)
			}
			if c.Rand.IntN(2) == 0 {
				c.Do(Call{
					Op:   "beat",
					Key:  c.Key("beat"),
					Cmds: [][]string{{"SET", c.Key("beat"), "1"}},
					Out:  word("OK"),
				})
			}
			c.Sleep(untilLook(c, ms, end))
		}
	}}
}

// timeToLive draws a time to live in milliseconds. Half of them are short, and some are longer than a fault.
func timeToLive(c *Client) int64 {
	switch c.Rand.IntN(8) {
	case 0, 1, 2, 3:
		return 50 + c.Rand.Int64N(450)
	case 4, 5, 6:
		return 500 + c.Rand.Int64N(4500)
	}
	return 5000 + c.Rand.Int64N(5000)
}

// untilLook draws the time until the next look. The last look before the end is just before it.
func untilLook(c *Client, ms int64, end time.Time) time.Duration {
	d := time.Duration(1+c.Rand.Int64N(1+min(ms/8, 300))) * time.Millisecond
	left := time.Until(end)
	if aim := left - time.Duration(c.Rand.Int64N(int64(aimMax))); left > 0 && aim < d {
		return aim
	}
	return d
}

// aimMax bounds how long before its end a key is looked at.
const aimMax = 10 * time.Millisecond

// clockSpan is the lease in ms of a key that never ends. The part of it that has passed is the log clock.
const clockSpan = int64(1e12) // ms

// clockKey returns that key.
func clockKey(c *Client) string { return c.Key("clock") }

// startClock gives that lease.
func startClock(c *Client) {
	set := [][]string{{"SET", clockKey(c), "1", "PX", itoa(clockSpan), "NX"}}
	for c.ctx.Err() == nil {
		if _, ok := c.Do(Call{Op: "start", Key: clockKey(c), Cmds: set, Out: word("OK", "nil")}); ok {
			return
		}
		c.Sleep(retryPause)
	}
}

// seeScript returns whether the key exists, its remaining time, its value, and the remaining time of the clock's key.
// grantScript sets the key before that. observeScript writes another key before that, so that it certainly goes through
// the log.
const (
	seeScript = `return {redis.call('EXISTS', KEYS[1]), redis.call('PTTL', KEYS[1]), redis.call('GET', KEYS[1]), ` +
		`redis.call('PTTL', KEYS[2])}`
	grantScript   = `redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) ` + seeScript
	observeScript = `redis.call('SET', KEYS[3], '1') ` + seeScript
)

// seeing makes the command of one of these scripts.
func seeing(c *Client, command, script, key string, args ...string) [][]string {
	return [][]string{append([]string{command, script, "3", key, clockKey(c), c.Key("beat")}, args...)}
}

// seen makes a result of the reply of seeScript, with the log clock in the last place.
func seen(replies []target.Reply) ([]string, error) {
	out := replies[0].Texts()
	if len(out) != 4 {
		return nil, errShape
	}
	left, err := strconv.ParseInt(out[3], 10, 64)
	if err != nil || left <= 0 {
		return nil, fmt.Errorf("%q is left of the clock, which was to run for %d ms", out[3], clockSpan)
	}
	out[3] = itoa(clockSpan - left)
	return out, nil
}

// toldOf is the mean number of calls of locks among which one does not tell the log clock.
const toldOf = 4

// Lua expressions for the holder of the lock that is a script's first key.
const (
	holderOfString = `redis.call('GET', KEYS[1])`
	holderOfHash   = `(redis.call('HKEYS', KEYS[1])[1] or false)`
)

// usuallyTelling makes most calls tell the log clock, if the target has one; see telling.
func usuallyTelling(c *Client, call Call, command, script, holder string, keys []string, args ...string) Call {
	if c.Rand.IntN(toldOf) == 0 || !c.env.Target.LogClock() {
		return call
	}
	return telling(c, call, command, script, holder, keys, args...)
}

// telling makes a call tell more: command runs a script with keys and args that does the same as the call, and returns
// its result, the remaining time of the first key, the holder of that, and the log clock.
func telling(c *Client, call Call, command, script, holder string, keys []string, args ...string) Call {
	plain, cmd := call, []string{command, tellingScript(script, holder), itoa(int64(len(keys) + 1))}
	call.Cmds = [][]string{slices.Concat(cmd, keys, []string{clockKey(c)}, args)}
	call.Out = func(replies []target.Reply) ([]string, error) {
		all, err := seen(replies)
		if err != nil {
			return nil, err
		}
		first, err := plain.result(replies[0].Elems[:1])
		if err != nil {
			return nil, err
		}
		all[0] = first[0]
		return all, nil
	}
	return call
}

// tellingScript makes that script. The clock is its last key.
func tellingScript(script, holder string) string {
	return `local function result() ` + script + ` end return {result() or false, redis.call('PTTL', KEYS[1]), ` +
		holder + `, redis.call('PTTL', KEYS[#KEYS])}`
}

// leadsOften is the mean number of looks after which a node that did not lead is asked again.
const leadsOften = 4

// askTerm asks whether the client's node leads, and in which term.
func askTerm(c *Client) (leads bool) {
	out, ok := c.Do(Call{Op: "reign", Cmds: [][]string{{"INFO", "raft"}}, Out: termLed})
	return ok && out[0] != "nil"
}

// askTermSometimes does so now and then. Between two equal answers its node has led.
func askTermSometimes(c *Client) {
	if c.Rand.IntN(leadsOften) == 0 {
		askTerm(c)
	}
}

// termLed makes a result of INFO: the term, or nil where another node leads.
func termLed(replies []target.Reply) ([]string, error) {
	_, term, _ := strings.Cut(replies[0].Text(), "\nterm:")
	term, _, _ = strings.Cut(term, "\r")
	if !strings.Contains(replies[0].Text(), "\nstate:leader\r") || term == "" {
		term = "nil"
	}
	return []string{term}, nil
}

// gone is the remaining time of a key that does not exist.
const gone = time.Duration(-1)

// lookAt looks at the key in one of five ways. ok is false without an answer; left is 0 if the answer does not tell the
// remaining time.
func lookAt(c *Client, key string) (left time.Duration, ok bool) {
	call := Call{Op: "get", Key: key, Cmds: [][]string{{"GET", key}}}
	switch c.Rand.IntN(8) {
	case 0, 1:
		call = Call{Op: "pttl", Key: key, Cmds: [][]string{{"PTTL", key}}, Out: number}
	case 2:
		call = Call{Op: "exists", Key: key, Cmds: [][]string{{"EXISTS", key}}, Out: word("0", "1")}
	case 3, 4, 5:
		call = Call{Op: "observe", Key: key, Cmds: seeing(c, "EVAL", observeScript, key), Out: seen}
	case 6:
		call = Call{Op: "glance", Key: key, Cmds: seeing(c, "EVAL_RO", seeScript, key), Out: seen}
	}
	out, ok := c.Do(call)
	if !ok {
		return 0, false
	}
	text := out[0]
	if len(out) > 1 {
		text = out[1]
	}
	switch ms, err := strconv.ParseInt(text, 10, 64); {
	case text == "nil" || text == "-2" || call.Op == "exists" && text == "0":
		return gone, true
	case err == nil && len(out) > 1 || call.Op == "pttl":
		return time.Duration(ms) * time.Millisecond, true
	}
	return 0, true
}
