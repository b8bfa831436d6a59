package workload

import (
	"strings"
	"sync"
	"time"

	"lockd/jepsen-lite/model"
	"lockd/jepsen-lite/target"
)

// waitMax bounds how long a client waits in line, in milliseconds.
const waitMax = 5000

const (
	renewFenceScript = `return redis.call('renew', KEYS[1], ARGV[1], 'PX', ARGV[2])`
	lockWaitScript   = `return redis.call('lock', KEYS[1], ARGV[1], 'PX', ARGV[2], 'WAIT', ARGV[3])`
	unlockScript     = `return redis.call('unlock', KEYS[1], ARGV[1])`
)

// newLine has clients wait in line for locks (LOCK WAIT), try once (LOCK, or LOCK WAIT in a transaction or a script), or
// poll (SET NX), and then hold, renew, release, or die. Some leave the line by UNLOCK. A client that breaks its connection while it waits, or when the lock was granted without its
// knowledge, returns with its token or never.
func newLine(env *Env) Plan {
	keys := newShortLived(env, "line")
	beside := func(c *Client) { passOn(c, [3]string{}) }
	return Plan{Setup: startClock, Final: keys.holders, Beside: beside, Step: func(c *Client) {
		askTermSometimes(c)
		h := &holder{c: c, key: keys.key(c), token: "t" + itoa(env.Unique()), ms: leaseMs(c)}
		if c.Rand.IntN(4) == 0 {
			h.look(0)
		}
		switch c.Rand.IntN(14) {
		case 0:
			h.poll()
		case 1:
			h.lock("try", 0, false)
		case 12:
			leaveLine(h)
		case 13:
			tryInWhole(h)
		case 2, 3:
			h.ms += 3000 // long enough for others to see the holder
			h.lock("enter", c.Rand.Int64N(waitMax), true)
			if c.Rand.IntN(2) == 0 {
				h.lock("enter", c.Rand.Int64N(waitMax), false)
			}
		default:
			h.lock("enter", c.Rand.Int64N(waitMax), false)
		}
	}}
}

// asking makes the call that takes the lock, with a wait in line or without.
func (h *holder) asking(op string, waitMs int64) Call {
	cmd, in := []string{"LOCK", h.key, h.token, "PX", itoa(h.ms)}, []string{h.token, itoa(h.ms), itoa(waitMs)}
	if op == "enter" {
		cmd = append(cmd, "WAIT", itoa(waitMs))
	}
	if h.mode != "" {
		in = append(in, h.mode)
	}
	switch h.mode {
	case "":
	case shared:
		cmd = append(cmd, "SHARED")
	default:
		cmd = append(cmd, "LIMIT", h.mode)
	}
	return Call{Op: op, Key: h.key, In: in, Cmds: [][]string{cmd}, Waits: time.Duration(waitMs) * time.Millisecond,
		Refusable: true, Out: granted}
}

// holds reports whether an answer means that the token holds the lock.
func holds(out []string, ok bool) bool {
	return ok && out[0] != "nil" && out[0] != displaced && !strings.HasPrefix(out[0], limitIs)
}

// lock takes the lock, with a wait in line or without, and holds it for a while.
func (h *holder) lock(op string, waitMs int64, die bool) {
	call := h.asking(op, waitMs)
	call.Die = die
	if holds(h.c.Do(call)) {
		h.use()
	}
}

// leaveLine has a client wait in line, and ends the wait by UNLOCK on another connection.
func leaveLine(h *holder) {
	c := h.c
	waiter := NewClient(c.ctx, c.env, c.ID+1)
	var done sync.WaitGroup
	done.Go(func() {
		defer waiter.Close()
		waiter.Do(h.asking("enter", waitMax))
	})
	c.Sleep(time.Duration(600+c.Rand.IntN(600)) * time.Millisecond)
	c.Do(Call{Op: "release", Key: h.key, In: []string{h.token}, Out: word("0", "1"),
		Cmds: [][]string{{"UNLOCK", h.key, h.token}}})
	done.Wait()
}

// wholeWait is the WAIT of a LOCK in a transaction or a script, in milliseconds, which counts as 0.
const wholeWait = "3000"

// tryInWhole tries the lock once, in a transaction or in a script.
func tryInWhole(h *holder) {
	call := h.asking("try", 0)
	call.In = append(call.In, "", model.InWhole)
	call.Cmds = [][]string{{"EVAL", lockWaitScript, "1", h.key, h.token, itoa(h.ms), wholeWait}}
	if h.c.Rand.IntN(2) == 0 {
		call.Cmds = [][]string{{"MULTI"}, {"LOCK", h.key, h.token, "PX", itoa(h.ms), "WAIT", wholeWait}, {"EXEC"}}
		call.Out = func(replies []target.Reply) ([]string, error) { return number(replies[2].Elems) }
	}
	if holds(h.c.Do(call)) {
		h.use()
	}
}

// use holds the lock for a while, and then releases it, or dies.
func (h *holder) use() {
	h.c.Sleep(time.Duration(50+h.c.Rand.Int64N(400)) * time.Millisecond)
	if h.c.Rand.IntN(3) == 0 {
		h.renewFence()
	}
	if h.c.Rand.IntN(8) == 0 && !h.askLonger() {
		return
	}
	if h.several && h.c.Rand.IntN(4) == 0 {
		h.linger()
	}
	deaths := 24
	if h.several {
		deaths = 8 // each death leaves a permit that must become free
	}
	if h.c.Rand.IntN(deaths) == 0 { // the client dies, and the lease ends the lock
		h.c.Close()
		return
	}
	h.unlock()
}

// askLonger asks again for the lock that it holds, with a longer lease, and holds it until the lease before is over.
func (h *holder) askLonger() (held bool) {
	until := time.Now().Add(time.Duration(h.ms) * time.Millisecond)
	h.ms += 2000
	if !holds(h.c.Do(h.asking("enter", 0))) {
		return false
	}
	h.c.Sleep(time.Until(until) + time.Duration(h.c.Rand.Int64N(500))*time.Millisecond)
	return true
}

// renewFence renews the lease.
func (h *holder) renewFence() (held bool) {
	ms := itoa(leaseMs(h.c))
	call := Call{Op: "renew", Key: h.key, In: []string{h.token, ms}, Out: number,
		Cmds: [][]string{{"RENEW", h.key, h.token, "PX", ms}}}
	return holds(h.c.Do(usuallyTelling(h.c, call, "EVAL", renewFenceScript, h.whoHolds(), []string{h.key}, h.token, ms)))
}

// whoHolds returns the Lua expression for the holder of the lock. A lock of several is not a string and has none.
func (h *holder) whoHolds() string {
	if h.several {
		return `''`
	}
	return holderOfString
}

// displaced is the result of a waiter whose token now waits on another connection.
const displaced = "displaced"

// limitIs begins the result of a request with another number of permits than the lock is held with.
const limitIs = "limit "

// granted makes a result of a reply of LOCK: a fence, nil, displaced, or the limit of the lock.
func granted(replies []target.Reply) ([]string, error) {
	text := replies[0].Str
	if strings.HasPrefix(text, "ERR another connection waits for this lock with the same token") {
		return []string{displaced}, nil
	}
	if n, held := strings.CutPrefix(text, "ERR this lock is held with LIMIT "); held {
		return []string{limitIs + strings.TrimSuffix(n, " now")}, nil
	}
	return number(replies)
}

// poll tries the lock like a program that does not use LOCK.
func (h *holder) poll() {
	out, ok := h.c.Do(Call{Op: "acquire", Key: h.key, In: []string{h.token, itoa(h.ms)},
		Cmds: [][]string{{"SET", h.key, h.token, "NX", "PX", itoa(h.ms)}}, Out: word("OK", "nil")})
	if !ok || out[0] != "OK" {
		return
	}
	h.c.Sleep(time.Duration(h.c.Rand.Int64N(100)) * time.Millisecond)
	if h.several {
		h.unlock() // the script works for a lock that is a string only
		return
	}
	h.release(false)
}

// unlock releases the lock.
func (h *holder) unlock() (answered bool) {
	call := Call{Op: "release", Key: h.key, In: []string{h.token}, Out: word("0", "1"),
		Cmds: [][]string{{"UNLOCK", h.key, h.token}}}
	_, answered = h.c.Do(usuallyTelling(h.c, call, "EVAL", unlockScript, h.whoHolds(), []string{h.key}, h.token))
	return answered
}
