package workload

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zeebo/xxh3"

	"lockd/jepsen-lite/target"
)

const (
	acquireScript = `return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])`
	holderScript  = `return redis.call('get', KEYS[1])`
	releaseScript = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`
	keyScript     = `return {redis.call('pttl', KEYS[1]), redis.call('fence', KEYS[1])}`
	renewScript   = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) ` +
		`end return 0`
)

// leaseMs draws the length of a lease.
func leaseMs(c *Client) int64 { return 300 + c.Rand.Int64N(2200) }

// resource is protected by the locks. It refuses a fence smaller than one that it has seen.
type resource struct {
	mu   sync.Mutex
	seen map[string]int64
}

// write writes with a fence.
func (r *resource) write(key string, fence int64) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if fence < r.seen[key] {
		return "refused"
	}
	r.seen[key] = fence
	return "accepted"
}

// holder is one try to take and hold a lock.
type holder struct {
	c          *Client
	key, token string
	ms         int64 // of the lease
	res        *resource
	mode       string // shared, a number of permits, or "" for an exclusive lock
	several    bool   // several clients may hold this lock
}

// newLock takes a lock, asks for its fence, writes to the resource, sometimes renews, stops beyond its lease or dies,
// writes again, and releases.
func newLock(env *Env) Plan {
	keys := newShortLived(env, "lock")
	res := &resource{seen: map[string]int64{}}
	values := newShortLived(env, "compared")
	return Plan{Setup: startClock, Final: keys.holders, Step: func(c *Client) {
		askTermSometimes(c)
		if c.compares() && c.Rand.IntN(4) == 0 {
			compare(c, values.key(c))
			return
		}
		h := &holder{c: c, key: keys.key(c), token: "t" + itoa(env.Unique()) + tokenTail, ms: leaseMs(c), res: res}
		if c.Rand.IntN(10) == 0 {
			h.look(0)
		}
		call := Call{Op: "acquire", Key: h.key, In: []string{h.token, itoa(h.ms)}, Die: c.Rand.IntN(40) == 0,
			Cmds: [][]string{{"SET", h.key, h.token, "NX", "PX", itoa(h.ms)}}, Out: word("OK", "nil")}
		out, ok := c.Do(usuallyTelling(c, call, "EVAL", acquireScript, holderOfString, []string{h.key}, h.token, itoa(h.ms)))
		if ok && out[0] == "OK" {
			h.work()
		}
	}}
}

// work does what a holder does until it releases the lock.
func (h *holder) work() {
	c := h.c
	fence := h.fence()
	h.write(fence)
	c.Sleep(time.Duration(c.Rand.Int64N(60)) * time.Millisecond)
	if c.Rand.IntN(3) == 0 {
		h.renew(false)
	}
	if c.Rand.IntN(4) == 0 {
		h.alike().meddle()
	}
	longer := time.Duration(h.ms)*time.Millisecond + time.Duration(c.Rand.IntN(500))*time.Millisecond
	switch c.Rand.IntN(24) {
	case 0: // the client sleeps beyond its lease
		c.Sleep(longer)
	case 1: // the client stops while an answer is on its way, beyond its lease
		h.look(longer)
	case 2: // the client dies
		c.Close()
		return
	case 3: // the client dies with a request on its way
		h.renew(true)
		return
	}
	h.write(fence) // as if it still held the lock
	h.release(c.Rand.IntN(24) == 0)
}

// fence asks for the fencing token of the lock; -1: there is none.
func (h *holder) fence() int64 {
	cmd := h.c.env.Target.Fence(h.key)
	if cmd == nil {
		return -1
	}
	out, ok := h.c.Do(Call{Op: "fence", Key: h.key, In: []string{h.token}, Cmds: [][]string{cmd}, Out: number})
	if !ok {
		return -1
	}
	n, err := strconv.ParseInt(out[0], 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// write writes to two resources, one of which checks fences.
func (h *holder) write(fence int64) {
	h.c.Local("unfenced", h.key, []string{h.token}, func() string { return "accepted" })
	if fence >= 0 {
		h.c.Local("write", h.key, []string{h.token, itoa(fence)}, func() string { return h.res.write(h.key, fence) })
	}
}

// look asks for the holder, and stops for a pause before reading the answer. Of a lock that several may hold it sometimes
// asks for the remaining time and the fence of the key instead.
func (h *holder) look(pause time.Duration) {
	call := Call{Op: "holder", Key: h.key, Cmds: [][]string{{"GET", h.key}}, Pause: pause}
	if h.several && h.c.Rand.IntN(2) == 0 {
		call = Call{Op: "key", Key: h.key, Cmds: [][]string{{"EVAL_RO", keyScript, "1", h.key}}, Out: pairOf}
		h.c.Do(call)
		return
	}
	if h.several {
		call.Refusable, call.Out = true, holderOrMany
		h.c.Do(call)
		return
	}
	h.c.Do(usuallyTelling(h.c, call, "EVAL_RO", holderScript, holderOfString, []string{h.key}))
}

// tokenTail ends a token of the lock workload. Without it the token is nobody's, and begins the token.
const tokenTail = ".t"

// alike returns a client whose token begins like the holder's, or with it.
func (h *holder) alike() *holder {
	other := *h
	if other.token = h.token + tokenTail; h.c.Rand.IntN(2) == 0 {
		other.token = strings.TrimSuffix(h.token, tokenTail)
	}
	return &other
}

// meddle asks to renew or to release the lock by a token that does not hold it.
func (h *holder) meddle() {
	if h.c.Rand.IntN(2) == 0 {
		h.renew(false)
	} else {
		h.release(false)
	}
}

// compares reports whether the server has commands that compare a value with their operand.
func (c *Client) compares() bool { return c.env.Target.LogClock() }

// comparing makes a command that compares the token of a lock, of which the server has several that do the same. It
// leaves some calls to a script.
func (h *holder) comparing(call Call, cmds ...[]string) (as Call, ok bool) {
	if !h.c.compares() || h.c.Rand.IntN(2) == 0 {
		return call, false
	}
	cmd := cmds[h.c.Rand.IntN(len(cmds))]
	if cmd[0] == "SET" { // it answers OK or nil
		call.Out = func(replies []target.Reply) ([]string, error) {
			out, err := word("OK", "nil")(replies)
			if err == nil {
				out[0] = map[string]string{"OK": "1", "nil": "0"}[out[0]]
			}
			return out, err
		}
	}
	call.Cmds = [][]string{cmd}
	return call, true
}

// digestOf returns the digest of a value, by which IFDEQ and IFDNE compare.
func digestOf(value string) string { return fmt.Sprintf("%016x", xxh3.HashString(value)) }

// alikeValues are the values of compare: each begins like another one, or differs from one in the case of its letters.
var alikeValues = []string{"token", "token-1", "token-12", "token-12-3", "TOKEN-12", "t"}

// compare changes a value, or its lease, by a command that compares it with an operand first.
func compare(c *Client, key string) {
	const forever = "1000000000" // ms; longer than a run
	for range 3 {
		how := []string{"IFEQ", "IFEQ", "IFNE", "IFDEQ", "IFDNE"}[c.Rand.IntN(5)]
		operand, value := alikeValues[c.Rand.IntN(len(alikeValues))], alikeValues[c.Rand.IntN(len(alikeValues))]
		told := operand
		if strings.HasPrefix(how, "IFD") {
			told = digestOf(operand)
		}
		call := Call{Op: "compare-get", Key: key, Cmds: [][]string{{"GET", key}}}
		switch c.Rand.IntN(9) {
		case 0, 1, 2:
			call = Call{Op: "compare-set", Key: key, In: []string{how, operand, value}, Out: word("OK", "nil"),
				Cmds: [][]string{{"SET", key, value, how, told, "PX", forever}}}
		case 3:
			call = Call{Op: "compare-del", Key: key, In: []string{how, operand}, Out: word("0", "1"),
				Cmds: [][]string{{"DELEX", key, how, told}}}
		case 4:
			call = Call{Op: "compare-del", Key: key, In: []string{"IFEQ", operand}, Out: word("0", "1"),
				Cmds: [][]string{{"DELIFEQ", key, operand}}}
		case 5:
			call = Call{Op: "compare-expire", Key: key, In: []string{how, operand}, Out: word("0", "1"),
				Cmds: [][]string{{"PEXPIRE", key, forever, how, told}}}
		case 6:
			call = Call{Op: "compare-expire", Key: key, In: []string{how, operand}, Out: word("0", "1"),
				Cmds: [][]string{{"EXPIRE", key, "1000000", how, told}}}
		}
		c.Do(call)
	}
}

// renew renews the lease by a script, or by a command that compares the token.
func (h *holder) renew(die bool) {
	ms := itoa(leaseMs(h.c))
	call := Call{Op: "renew", Key: h.key, In: []string{h.token, ms}, Die: die,
		Cmds: [][]string{{"EVAL", renewScript, "1", h.key, h.token, ms}}, Out: word("0", "1")}
	if as, ok := h.comparing(call, []string{"SET", h.key, h.token, "IFEQ", h.token, "PX", ms},
		[]string{"SET", h.key, h.token, "PX", ms, "IFDEQ", digestOf(h.token)},
		[]string{"PEXPIRE", h.key, ms, "IFEQ", h.token}, []string{"PEXPIRE", h.key, ms, "IFDEQ", digestOf(h.token)}); ok {
		h.c.Do(as)
		return
	}
	h.c.Do(usuallyTelling(h.c, call, "EVAL", renewScript, holderOfString, []string{h.key}, h.token, ms))
}

// release releases the lock by a script, or by a command that compares the token.
func (h *holder) release(die bool) {
	call := Call{Op: "release", Key: h.key, In: []string{h.token}, Die: die,
		Cmds: [][]string{{"EVAL", releaseScript, "1", h.key, h.token}}, Out: word("0", "1")}
	if as, ok := h.comparing(call, []string{"DELEX", h.key, "IFEQ", h.token}, []string{"DELIFEQ", h.key, h.token},
		[]string{"DELEX", h.key, "IFDEQ", digestOf(h.token)}); ok {
		h.c.Do(as)
		return
	}
	h.c.Do(usuallyTelling(h.c, call, "EVAL", releaseScript, holderOfString, []string{h.key}, h.token))
}

// holders asks for the holders of the locks of this run. Most leases have ended long ago.
func (s *shortLived) holders(c *Client) {
	for _, key := range s.all(c) {
		(&holder{c: c, key: key}).look(0)
	}
}
