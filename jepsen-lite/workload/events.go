package workload

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"lockd/jepsen-lite/target"
)

// The channel to which the workload listens, and the setting that publishes its messages.
const (
	expiredChannel = "__keyevent@0__:expired"
	notifySetting  = "notify-keyspace-events"
)

// newEvents has half of the workers listen through all nodes for the ends of leases, while the others set keys with a
// time to live, and renew or delete some of them.
func newEvents(env *Env) Plan {
	before := ""
	return Plan{
		Setup: func(c *Client) {
			for c.ctx.Err() == nil {
				out, ok := c.Do(Call{Op: "setting", Cmds: [][]string{{"CONFIG", "GET", notifySetting}}, Out: members})
				if ok && len(out) == 2 {
					before = out[1]
					break
				}
			}
			setNotifications(c, "Ex")
		},
		Listen: func(c *Client) {
			listen(c, expiredChannel, func(key string) []string {
				if !strings.HasPrefix(key, env.Prefix) {
					return nil
				}
				return []string{key}
			}, func(key string) bool { return strings.HasPrefix(key, c.Key("last")) })
		},
		Step: func(c *Client) { useLease(c, c.Key("x"+itoa(env.Unique()))) },
		Last: func(c *Client) { // its lease ends after all others
			for done := false; !done && c.ctx.Err() == nil; {
				done = setLease(c, c.Key("last"+itoa(env.Unique())), leaseLow+leaseRange)
			}
		},
		Final: func(c *Client) {
			if c.ID == 0 {
				setNotifications(c, before)
			}
		},
	}
}

// setNotifications sets which events the nodes publish.
func setNotifications(c *Client, classes string) {
	for c.ctx.Err() == nil {
		set := [][]string{{"CONFIG", "SET", notifySetting, classes}}
		if _, ok := c.Do(Call{Op: "setting", In: []string{classes}, Cmds: set, Out: word("OK")}); ok {
			return
		}
	}
}

// Bounds of leases, ms.
const leaseLow, leaseRange = 50, 2500

// setLease sets a key with a time to live.
func setLease(c *Client, key string, ms int64) bool {
	_, ok := c.Do(Call{
		Op:   "set",
		Key:  key,
		In:   []string{itoa(ms)},
		Cmds: [][]string{{"SET", key, "1", "PX", itoa(ms)}},
		Out:  word("OK"),
	})
	return ok
}

// useLease sets a key, and perhaps renews or deletes it, sometimes too late.
func useLease(c *Client, key string) {
	ms := leaseLow + c.Rand.Int64N(leaseRange)
	ok := setLease(c, key, ms)
	if !ok || c.Rand.IntN(2) == 0 {
		return
	}
	for c.Rand.IntN(3) > 0 && ok {
		c.Sleep(time.Duration(c.Rand.Int64N(ms*6/5)) * time.Millisecond)
		ms = leaseLow + c.Rand.Int64N(leaseRange)
		_, ok = c.Do(Call{
			Op:   "renew",
			Key:  key,
			In:   []string{itoa(ms)},
			Cmds: [][]string{{"PEXPIRE", key, itoa(ms)}},
			Out:  word("0", "1"),
		})
	}
	if ok && c.Rand.IntN(2) == 0 {
		c.Sleep(time.Duration(c.Rand.Int64N(ms*6/5)) * time.Millisecond)
		c.Do(Call{Op: "del", Key: key, Cmds: [][]string{{"DEL", key}}, Out: word("0", "1")})
	}
}

// lockChannels begins the names of the channels on which the events of locks are published.
const lockChannels = "__lock@0__:"

// newTold has half of the workers listen through all nodes to the events of locks. The others take locks by connections
// that are told of losses by pushes, and release, renew or lose them; or they take a lock away: by force, by DEL, SET or
// a script. At the end they ask for the history of each lock.
func newTold(env *Env) Plan {
	keys := newShortLived(env, "told")
	var granted sync.Map
	return Plan{
		Setup: func(c *Client) { (&witness{c: c, key: c.Key("none")}).history() },
		Listen: func(c *Client) {
			last := c.Key("last")
			listen(c, lockChannels+env.Prefix+"*", lockEvent, func(text string) bool { return strings.HasPrefix(text, last) })
		},
		Step: func(c *Client) {
			w := &witness{c: c, key: keys.key(c), token: "t" + itoa(env.Unique()), ms: leaseMs(c), granted: &granted}
			if c.Rand.IntN(3) == 0 {
				w.takeAway()
			} else {
				w.holdAndListen()
			}
		},
		Last: func(c *Client) {
			for c.ctx.Err() == nil {
				w := &witness{c: c, key: c.Key("last" + itoa(env.Unique())), token: "t", ms: 1, granted: &granted}
				if w.heard(c.Do(w.lock("try", 0))) {
					return
				}
			}
		},
		Final: func(c *Client) {
			for _, key := range keys.all(c) {
				(&witness{c: c, key: key}).history()
			}
		},
	}
}

// lockEvent makes a record of a message about a lock: its key, and the event as toldHistory has it.
func lockEvent(text string) []string {
	fields := map[string]any{}
	parse := json.NewDecoder(strings.NewReader(text))
	parse.UseNumber()
	if err := parse.Decode(&fields); err != nil {
		return []string{text} // the checker judges that
	}
	words := make([]string, len(toldOfEvent))
	for i, name := range toldOfEvent {
		if value, known := fields[name]; known {
			words[i] = fmt.Sprint(value)
		}
	}
	return []string{fmt.Sprint(fields["key"]) + " " + strings.Join(words, "|")}
}

// takeAway takes the lock away from whoever has it.
func (w *witness) takeAway() {
	c := w.c
	switch c.Rand.IntN(6) {
	case 0:
		w.delete()
	case 1:
		ms := itoa(50 + c.Rand.Int64N(200))
		c.Do(w.call("overwrite", word("OK"), []string{"data", ms}, "SET", w.key, "data", "PX", ms))
	case 2:
		if last, ok := w.granted.Load(w.key); ok {
			token := last.(told).token
			c.Do(w.call("release", word("0", "1"), []string{token}, "EVAL", releaseScript, "1", w.key, token))
		}
	case 3:
		w.force("", 0)
	default:
		w.forceOne()
	}
}

// Times of a client that holds a lock and listens.
const (
	afterLoss = 300 * time.Millisecond // a second push about a loss would come in this time
	afterEnd  = 3 * time.Second        // a push about the end of a lease comes in this time, without a fault
)

// holdAndListen takes the lock by a connection that is told of its loss, and listens until it is lost, or for some time
// after it was released. Other connections renew and release it.
func (w *witness) holdAndListen() {
	other := w.c
	w.c = NewClient(other.ctx, other.env, other.Rand.IntN(len(other.env.Target.Nodes())))
	defer w.c.Close()
	if _, ok := w.c.Do(Call{Op: "hello", Key: w.key, Cmds: [][]string{{"HELLO", "3"}}}); !ok || w.c.conn == nil {
		return
	}
	defer func() { w.c.mark("cut", w.key) }()
	call := w.lock("enter", other.Rand.Int64N(waitMax/4))
	call.Same = w.c.conn
	if !w.heard(w.c.Do(call)) {
		return
	}
	for range other.Rand.IntN(3) {
		if w.hear(time.Duration(other.Rand.Int64N(w.ms*6/5)) * time.Millisecond) {
			return
		}
		w.ms += 1 + other.Rand.Int64N(100)
		if !w.by(other).renew() {
			break
		}
	}
	if other.Rand.IntN(3) > 0 {
		w.hear(time.Duration(w.ms)*time.Millisecond + afterEnd)
		return
	}
	w.by(other).unlock()
	w.hear(afterLoss)
}

// by returns the witness with another client, who acts for it.
func (w *witness) by(c *Client) *witness {
	other := *w
	other.c = c
	return &other
}

// hear records pushes for some time, and reports whether the client has lost the lock, or its connection.
func (w *witness) hear(most time.Duration) (lost bool) {
	c := w.c
	for until := time.Now().Add(most); c.ctx.Err() == nil; {
		left := time.Until(until)
		if left <= 0 {
			return lost
		}
		r, err := c.conn.Wait(min(left, 100*time.Millisecond))
		switch {
		case err == target.ErrQuiet:
		case err != nil:
			return true
		case r.Kind == '>' && len(r.Elems) == 5:
			words := r.Texts()
			if words[0] == "lock-lost" {
				until, lost = time.Now().Add(afterLoss), true
			}
			c.mark(strings.TrimPrefix(words[0], "lock-"), words[1], words[2:]...)
		}
	}
	return lost
}
