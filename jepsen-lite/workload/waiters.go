package workload

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"lockd/jepsen-lite/target"
)

// releaseTellScript releases a lock and publishes that, like Redisson's.
const releaseTellScript = `if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('del', KEYS[1]) ` +
	`redis.call('publish', KEYS[2], '0') return 1 end return 0`

// patience bounds the whole wait of a waiter.
const patience = 10 * time.Second

// newWaiters makes the losers of a lock subscribe to its releases, try again, and then sleep until a release is
// published, or as long as the lock can be held. Some holders die without a release.
func newWaiters(env *Env) Plan {
	keys := newShortLived(env, "w")
	return Plan{Setup: startClock, Final: keys.holders, Beside: useLibrary, Step: func(c *Client) {
		h := &holder{c: c, key: keys.key(c), ms: leaseMs(c)}
		told, ok := h.try()
		if told != nil {
			ok = h.wait()
		}
		if !ok {
			return
		}
		c.Sleep(time.Duration(c.Rand.Int64N(h.ms/2)) * time.Millisecond)
		if c.Rand.IntN(8) == 0 {
			c.Close()
			return
		}
		call := Call{Op: "release", Key: h.key, In: []string{h.token}, Out: word("0", "1"),
			Cmds: [][]string{{"EVAL", releaseTellScript, "2", h.key, h.channel(), h.token}}}
		c.Do(usuallyTelling(c, call, "EVAL", releaseTellScript, holderOfString, []string{h.key, h.channel()}, h.token))
	}}
}

// channel returns the channel of the releases.
func (h *holder) channel() string { return "ch:" + h.key }

// try tries to take the lock under a new token, with a script that tells the log clock, too. If another client holds
// the lock, told is the remaining time of its lease in milliseconds, and its token; else told is nil.
func (h *holder) try() (told []string, held bool) {
	askTermSometimes(h.c)
	h.token = "t" + itoa(h.c.env.Unique())
	call := Call{Op: "acquire", Key: h.key, In: []string{h.token, itoa(h.ms)}, Out: word("OK", "nil")}
	out, ok := h.c.Do(telling(h.c, call, "EVAL", acquireScript, holderOfString, []string{h.key}, h.token, itoa(h.ms)))
	if !ok || out[0] == "OK" {
		return nil, ok
	}
	return out[1:3], false
}

// wait listens on a connection of its own until the lock is taken, or patience is over. It reports whether the lock is
// held.
func (h *holder) wait() (held bool) {
	ctx, cancel := context.WithTimeout(h.c.ctx, patience)
	defer cancel()
	ear := NewClient(ctx, h.c.env, h.c.Rand.IntN(len(h.c.env.Target.Nodes())))
	defer ear.Close()
	for ctx.Err() == nil {
		if ear.conn == nil {
			listen := [][]string{{"SUBSCRIBE", h.channel()}}
			if _, ok := ear.Do(Call{Op: "listen", Key: h.key, Cmds: listen, Out: subscribed}); !ok {
				continue
			}
		}
		told, held := h.try()
		if told == nil {
			return held // false if the outcome is unknown
		}
		sleepUntilTold(ear, h.key, told)
	}
	return false
}

// sleepUntilTold waits for a message, for as long as it was told, but not beyond patience.
func sleepUntilTold(c *Client, key string, told []string) {
	ms, err := time.ParseDuration(told[0] + "ms")
	if err != nil || ms < 0 || c.conn == nil {
		return // the checker judges such an answer
	}
	c.Local("wait", key, told, func() string {
		for until := time.Now().Add(ms); c.ctx.Err() == nil; {
			left := time.Until(until)
			if left <= 0 {
				return "timeout"
			}
			_, err := c.conn.Wait(min(left, 100*time.Millisecond))
			if err == nil {
				return "woken"
			}
			if err != target.ErrQuiet {
				c.Close()
				return "cut"
			}
		}
		return "left"
	})
}

// pythonUnlock is the script by which python-redis-lock releases a lock and wakes one waiter.
const pythonUnlock = `if redis.call("get", KEYS[1]) ~= ARGV[1] then return 1 ` +
	`else redis.call("del", KEYS[2]) redis.call("lpush", KEYS[2], 1) redis.call("pexpire", KEYS[2], ARGV[2]) ` +
	`redis.call("del", KEYS[1]) return 0 end`

// Times of a lock of a library in ms.
const (
	libraryLease = 12_000
	librarySoon  = 300 // until a lease that is made short ends
)

// library is a lock of Redisson's or of python-redis-lock's, with one holder and one waiter.
type library struct {
	key, token string
	python     bool
}

// useLibrary has a client hold a lock of a library, another one wait for it as the library does, and the lock end: by
// the library's own release, or in a way that it does not know of.
func useLibrary(c *Client) {
	n := itoa(c.env.Unique())
	l := &library{key: c.Key("lib" + n), python: c.Rand.IntN(2) == 0}
	l.token = "8a2f0c1e-4b6d-4e7f-9a3b-0c1d2e3f4a5b:" + n // Redisson's begin with a UUID
	if l.python {
		l.key = "lock:" + l.key
	}
	if left, ok := l.seek(c, l.token); !ok || left != "taken" {
		return
	}
	waiter := NewClient(c.ctx, c.env, c.ID+c.attempt+1)
	var done sync.WaitGroup
	done.Go(func() {
		defer waiter.Close()
		l.wait(waiter)
	})
	c.Sleep(time.Duration(500+c.Rand.IntN(500)) * time.Millisecond)
	l.end(c)
	done.Wait()
}

// seek tries to take the lock. It returns taken, or the time that is left.
func (l *library) seek(c *Client, token string) (left string, ok bool) {
	ms := itoa(libraryLease)
	call := Call{Op: "seek", Key: l.key, In: []string{token, ms}}
	call.Cmds = [][]string{{"EVAL", redissonLock, "1", l.key, ms, token}}
	if l.python {
		call.Cmds = [][]string{{"SET", l.key, token, "NX", "PX", ms}}
	}
	call.Out = func(replies []target.Reply) ([]string, error) {
		switch r := replies[0]; {
		case r.Nil != l.python: // Redisson's script answers nil to the client that takes the lock, SET NX to others
			return []string{"taken"}, nil
		case r.Nil:
			return []string{ms}, nil
		default:
			return number(replies)
		}
	}
	out, ok := c.Do(call)
	if !ok {
		return "", false
	}
	return out[0], true
}

// wait sleeps as the library does, until it is woken or the lease must be over.
func (l *library) wait(c *Client) {
	other := "9c3e1d2f-5c7e-4f80-8b4c-1d2e3f4a5b6c:" + itoa(c.env.Unique())
	if l.python {
		if left, ok := l.seek(c, other); !ok || left == "taken" {
			return
		}
		wait := c.env.withinWork(libraryLease * time.Millisecond)
		c.Do(Call{Op: "doze", Key: l.key, In: []string{itoa(wait.Milliseconds())}, Waits: wait,
			Cmds: [][]string{{"BLPOP", l.signal(), strconv.FormatFloat(wait.Seconds(), 'f', 3, 64)}},
			Out: func(replies []target.Reply) ([]string, error) {
				if replies[0].Nil {
					return []string{"timeout"}, nil
				}
				return []string{"woken"}, nil
			}})
		return
	}
	ear := NewClient(c.ctx, c.env, c.ID)
	defer ear.Close()
	listen := Call{Op: "listen", Key: l.key, Cmds: [][]string{{"SUBSCRIBE", l.channel()}}, Out: subscribed}
	if _, ok := ear.Do(listen); !ok {
		return
	}
	if left, ok := l.seek(c, other); ok && left != "taken" {
		sleepUntilTold(ear, l.key, []string{left, l.token})
	}
}

func (l *library) signal() string  { return "lock-signal:" + strings.TrimPrefix(l.key, "lock:") }
func (l *library) channel() string { return "redisson_lock__channel:{" + l.key + "}" }

// end ends the lock in one of several ways.
func (l *library) end(c *Client) {
	ways := []string{"unlock", "del", "rename", "force", "script", "expire"}
	way, after := ways[c.Rand.IntN(len(ways))], "0"
	var cmd []string
	switch way {
	case "unlock":
		cmd = []string{"EVAL", redissonUnlock, "2", l.key, l.channel(), "0", itoa(libraryLease), l.token, "publish"}
		if l.python {
			cmd = []string{"EVAL", pythonUnlock, "2", l.key, l.signal(), l.token, "1000"}
		}
	case "del":
		cmd = []string{"DEL", l.key}
	case "rename":
		cmd = []string{"RENAME", l.key, "was:" + l.key}
	case "force":
		cmd = []string{"LOCKS", "FORCE", l.key, "REASON", "why"}
	case "script":
		cmd = []string{"EVAL", `return redis.call('del', KEYS[1])`, "1", l.key}
	case "expire":
		after = itoa(librarySoon)
		cmd = []string{"PEXPIRE", l.key, after}
	}
	c.Do(Call{Op: "end", Key: l.key, In: []string{way, after}, Cmds: [][]string{cmd},
		Out: func(replies []target.Reply) ([]string, error) {
			if text := replies[0].Text(); text == "OK" || text == "0" && l.python && way == "unlock" {
				return []string{"1"}, nil
			}
			return number(replies)
		}})
}
