package workload

import (
	"strconv"
	"strings"
	"time"

	"lockd/jepsen-lite/target"
)

// Few locks, of which owners hold several at once, so that they come to wait for each other.
const (
	ownedKeys    = 3      // of the owners that share them
	ownedByTwo   = 2      // the number of the one that two may hold
	ownedLease   = 10_000 // ms
	ownedWaitMax = 3_000  // ms
)

// newOwners makes each worker an owner that takes up to three locks in any order, one of which two may hold, waits in line
// for them, and releases what it has got; it gives up when it is told of a deadlock. Clients beside them ask who holds what, and who waits.
func newOwners(env *Env) Plan {
	keys := newShortLived(env, "owned")
	return Plan{
		Setup: startClock,
		Step: func(c *Client) {
			(&owner{c: c, name: "o" + itoa(int64(c.ID)), keys: keys.key(c)}).visit()
		},
		Beside: func(c *Client) {
			c.Sleep(time.Duration(c.Rand.IntN(300)) * time.Millisecond)
			slot := c.Rand.IntN(len(keys.used))
			group := keys.name + itoa(int64(slot)) + "-" + itoa(keys.used[slot].Load()/opsPerKey)
			askWho(c, c.Key(group))
		},
	}
}

// owner is a worker under its name, with the locks that it holds.
type owner struct {
	c    *Client
	name string
	keys string // begins the names of the locks that it uses
	held []*holder
}

// key returns one of the locks.
func (o *owner) key(n int) string { return o.keys + "." + itoa(int64(n)) }

// visit takes some locks, one after the other, and releases them. Now and then it asks for one that it has.
func (o *owner) visit() {
	r := o.c.Rand
	order := r.Perm(ownedKeys)
	if r.IntN(6) == 0 {
		order[1] = order[0]
	}
	for _, n := range order[:1+r.IntN(ownedKeys)] {
		if !o.take(o.key(n)) {
			break
		}
		o.c.Sleep(time.Duration(r.Int64N(400)) * time.Millisecond)
	}
	if r.IntN(40) == 0 {
		o.c.Close() // the client dies, and the leases end its locks
		return
	}
	for _, h := range o.held {
		h.unlockSoon()
	}
}

// take waits for a lock, and reports whether it is held.
func (o *owner) take(key string) bool {
	c := o.c
	h := &holder{c: c, key: key, token: "t" + itoa(c.env.Unique()), ms: ownedLease}
	wait := c.Rand.Int64N(ownedWaitMax)
	cmd := []string{"LOCK", key, h.token, "PX", itoa(h.ms), "WAIT", itoa(wait), "OWNER", o.name}
	if key == o.key(ownedByTwo) {
		h.mode, h.several = "2", true
		cmd = append(cmd, "LIMIT", h.mode)
	}
	out, ok := c.Do(Call{Op: "enter", Key: key, In: []string{h.token, itoa(h.ms), itoa(wait), h.mode, o.name},
		Cmds: [][]string{cmd}, Waits: time.Duration(wait) * time.Millisecond, Refusable: true, Out: grantedOrDeadlock})
	held := holds(out, ok) && out[0] != deadlocked
	if held || !ok {
		o.held = append(o.held, h) // it may be held without an answer
	}
	return held
}

// deadlocked begins the result of a LOCK that would close a circle of owners.
const deadlocked = "deadlock"

// grantedOrDeadlock makes a result of a reply of LOCK: as granted does, or deadlock and what it says.
func grantedOrDeadlock(replies []target.Reply) ([]string, error) {
	if says, found := strings.CutPrefix(replies[0].Str, "DEADLOCK "); found {
		return []string{deadlocked, says}, nil
	}
	return granted(replies)
}

// askWho asks about the locks whose names begin so: about one of them, for all that are held, or who waits for whom.
func askWho(c *Client, group string) {
	switch c.Rand.IntN(4) {
	case 0:
		c.Do(Call{Op: "list", Key: group, Cmds: [][]string{{"LOCKS", "LIST", "MATCH", group + ".*"}}, Out: listed})
	case 1:
		c.Do(Call{Op: "graph", Key: group, Cmds: [][]string{{"LOCKS", "GRAPH", "COUNT", "100000"}},
			Out: func(replies []target.Reply) ([]string, error) { return edges(replies, group+".") }})
	default:
		key := group + "." + itoa(int64(c.Rand.IntN(ownedKeys)))
		c.Do(Call{Op: "info", Key: key, Cmds: [][]string{{"LOCKS", "INFO", key}},
			Out: func(replies []target.Reply) ([]string, error) { return informed(replies, key) }})
	}
}

// heldBy makes words of the holders of a lock: held key token owner fence.
func heldBy(key string, holders target.Reply) (words []string) {
	for _, r := range holders.Elems {
		h := mapOf(r)
		words = append(words, strings.Join([]string{"held", key, h["token"].Text(), h["owner"].Text(), h["fence"].Text()}, "|"))
	}
	return words
}

// listed makes a result of LOCKS LIST: the holders, and waiters key n for each lock.
func listed(replies []target.Reply) ([]string, error) {
	if replies[0].Kind != '*' {
		return nil, errShape
	}
	out := []string{}
	for _, r := range replies[0].Elems {
		l := mapOf(r)
		key := l["key"].Text()
		out = append(out, heldBy(key, l["holders"])...)
		out = append(out, "waiters|"+key+"|"+strconv.FormatInt(l["waiters"].Int, 10))
	}
	return out, nil
}

// informed makes a result of LOCKS INFO: the holders, and waits key token owner for each who waits, in their order.
func informed(replies []target.Reply, key string) ([]string, error) {
	if replies[0].Nil {
		return []string{}, nil
	}
	l := mapOf(replies[0])
	if l["line"].Kind != '*' {
		return nil, errShape
	}
	out := heldBy(key, l["holders"])
	for _, r := range l["line"].Elems {
		w := mapOf(r)
		out = append(out, strings.Join([]string{"waits", key, w["token"].Text(), w["owner"].Text()}, "|"))
	}
	return out, nil
}

// edges makes a result of LOCKS GRAPH: edge key token owner token owner, of the waiter and of the holder, for each edge
// of locks whose names begin so.
func edges(replies []target.Reply, group string) ([]string, error) {
	all := mapOf(replies[0])
	if all["edges"].Kind != '*' || all["more"].Int != 0 {
		return nil, errShape
	}
	out := []string{}
	for _, r := range all["edges"].Elems {
		e := mapOf(r)
		if !strings.HasPrefix(e["key"].Text(), group) {
			continue
		}
		words := []string{"edge"}
		for _, name := range []string{"key", "waiter-token", "waiter", "holder-token", "holder"} {
			words = append(words, e[name].Text())
		}
		out = append(out, strings.Join(words, "|"))
	}
	return out, nil
}
