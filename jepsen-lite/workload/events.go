package workload

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"lockd/jepsen-lite/model"
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
			listen(c, expiredChannel, func(_, key string) []string {
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

// newTold has half of the workers listen through all nodes to the events of locks, or to those of whole databases. The
// others take locks by connections that are told of losses by pushes, and release, renew or lose them; or they take a
// lock away: by force, by DEL, SET or a script; or they end all locks of another database. At the end they ask for the
// history of each lock.
func newTold(env *Env) Plan {
	keys := newShortLived(env, "told")
	var granted sync.Map
	return Plan{
		Setup: func(c *Client) { (&witness{c: c, key: c.Key("none")}).history() },
		Listen: func(c *Client) {
			channel, event := lockChannels+env.Prefix+"*", lockEvent
			if c.Rand.IntN(3) == 0 {
				channel, event = model.WholeChannels, wholeEvent
			}
			last := c.Key("last")
			listen(c, channel, event, func(text string) bool { return strings.HasPrefix(text, last) })
		},
		Step: func(c *Client) {
			w := &witness{c: c, key: keys.key(c), token: "t" + itoa(env.Unique()), ms: leaseMs(c), granted: &granted}
			switch c.Rand.IntN(9) {
			case 0, 1, 2:
				w.takeAway()
			case 3:
				endAll(c, "w"+itoa(int64(c.ID))+"."+itoa(env.Unique()))
			default:
				w.holdAndListen()
			}
		},
		Last: func(c *Client) {
			for c.ctx.Err() == nil && !endAll(c, c.Key("last"+itoa(env.Unique()))) {
			}
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

// wholeDBs are the databases whose locks end all at once. The other locks of the workload are in database 0.
const wholeDBs = 14

// endAll takes locks in a database, and ends them at once by FLUSHDB or SWAPDB, under a client name.
func endAll(c *Client, name string) (done bool) {
	db := 1 + c.Rand.Int64N(wholeDBs)
	how, other := []string{"FLUSHDB"}, ""
	if c.Rand.IntN(2) == 0 {
		other = itoa(1 + db%wholeDBs)
		how = []string{"SWAPDB", itoa(db), other}
	}
	cmds := [][]string{{"CLIENT", "SETNAME", name}, {"SELECT", itoa(db)}, {"MULTI"}}
	for range 2 {
		cmds = append(cmds, []string{"LOCK", "l" + itoa(c.env.Unique()), "t", "PX", "1000"})
	}
	cmds = append(cmds, how, []string{"EXEC"}, []string{"SELECT", "0"})
	_, done = c.Do(Call{Op: "end-all", Key: itoa(db), In: []string{name, how[0], other}, Cmds: cmds, Out: word("OK")})
	return done
}

// wholeEvent makes a record of a message about a whole database: the client name behind it, the database, the event, and
// what such a message may not have.
func wholeEvent(channel, text string) []string {
	fields, err := fieldsOf(text)
	if err != nil {
		return []string{text} // the checker judges that
	}
	db := strings.TrimSuffix(strings.TrimPrefix(channel, "__lock@"), "__:")
	words := []string{fmt.Sprint(fields["client-name"]), db, fmt.Sprint(fields["event"])}
	for _, name := range []string{"key", "token"} {
		if value, known := fields[name]; known {
			words = append(words, fmt.Sprint(value))
		}
	}
	return []string{strings.Join(words, "|")}
}

// fieldsOf parses a message about locks.
func fieldsOf(text string) (fields map[string]any, err error) {
	parse := json.NewDecoder(strings.NewReader(text))
	parse.UseNumber()
	err = parse.Decode(&fields)
	return fields, err
}

// lockEvent makes a record of a message about a lock: its key, and the event as toldHistory has it.
func lockEvent(_, text string) []string {
	fields, err := fieldsOf(text)
	if err != nil {
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
// after it was released. Other connections renew and release it; one may take it with the same token, to be told of its
// loss as well. The first one may forget the lock.
func (w *witness) holdAndListen() {
	other := w.c
	w.c = w.ear()
	defer w.c.Close()
	if !w.takeToListen(other.Rand.Int64N(waitMax / 4)) {
		return
	}
	var beside sync.WaitGroup
	defer beside.Wait()
	defer w.c.mark("cut", w.key)
	if other.Rand.IntN(3) == 0 {
		w.ms += 1 + other.Rand.Int64N(100)
		ear := w.ear()
		if other.Rand.IntN(2) == 0 {
			ear.ID = w.c.ID // at the same node
		}
		beside.Go(w.by(ear).listenBeside)
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
	if other.Rand.IntN(3) == 0 && !w.forget() {
		return
	}
	if other.Rand.IntN(3) > 0 {
		w.hear(time.Duration(w.ms)*time.Millisecond + afterEnd)
		return
	}
	w.by(other).unlock()
	w.hear(afterLoss)
}

// ear makes another client, which starts at any node.
func (w *witness) ear() *Client {
	return NewClient(w.c.ctx, w.c.env, w.c.Rand.IntN(len(w.c.env.Target.Nodes())))
}

// takeToListen takes the lock by a connection that is told of its loss.
func (w *witness) takeToListen(waitMs int64) (held bool) {
	if _, ok := w.c.Do(Call{Op: "hello", Key: w.key, Cmds: [][]string{{"HELLO", "3"}}}); !ok || w.c.conn == nil {
		return false
	}
	call := w.lock("enter", waitMs)
	call.Same = w.c.conn
	return w.heard(w.c.Do(call))
}

// listenBeside takes the lock that its token may have by another connection, and listens until it is lost.
func (w *witness) listenBeside() {
	defer w.c.Close()
	if w.takeToListen(0) {
		w.hear(time.Duration(w.ms)*time.Millisecond + afterEnd)
		w.c.mark("cut", w.key)
	}
}

// forget has the connection forget its locks. Pushes that came before the answer are of the time before.
func (w *witness) forget() (done bool) {
	c := w.c
	how := []string{"HELLO", "2"}
	if c.Rand.IntN(2) == 0 {
		how = []string{"RESET"}
	}
	if _, ok := c.Do(Call{Op: "forget", Key: w.key, In: how[:1], Cmds: [][]string{how}, Same: c.conn}); !ok {
		return false
	}
	w.hear(time.Millisecond)
	c.mark("forgot", w.key)
	_, done = c.Do(Call{Op: "hello", Key: w.key, Cmds: [][]string{{"HELLO", "3"}}, Same: c.conn})
	return done
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
