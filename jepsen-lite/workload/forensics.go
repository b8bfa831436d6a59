package workload

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"lockd/jepsen-lite/target"
)

const (
	handScript = `if redis.call('get', KEYS[1]) == ARGV[1] then ` +
		`return redis.call('set', KEYS[1], ARGV[2], 'PX', ARGV[3]) end return false`
	holderFenceScript = `return {redis.call('get', KEYS[1]), redis.call('fence', KEYS[1])}`
)

// historyMax bounds the history of nodes in some runs, so that they forget during the run.
const (
	historySetting = "lock-history-max-events"
	historyMax     = 1000
	historyEvents  = "100000" // what is requested, and kept in the other runs
)

// newForensics takes locks in every way, and loses them in every way: clients release them, let the lease end, delete
// them, store another value, or end them with a reason. Now and then, and at the end at several nodes, they ask for the
// history of a lock.
func newForensics(env *Env) Plan {
	keys, bounded := newShortLived(env, "past"), env.Seed%3 == 0
	had := make([][]*witness, env.Workers) // by worker: the locks that it asks about at the end
	var granted sync.Map                   // by key: the last grant that a client was told of
	return Plan{
		Setup: func(c *Client) {
			if bounded {
				configure(c, historySetting, itoa(historyMax))
			}
			(&witness{c: c, key: c.Key("none")}).ask()
		},
		Step: func(c *Client) {
			w := &witness{c: c, key: keys.key(c), token: "t" + itoa(env.Unique()), ms: leaseMs(c), granted: &granted}
			switch c.Rand.IntN(12) {
			case 0:
				w.end()
			case 1:
				w.forceOne()
			case 2:
				if before := had[c.ID]; len(before) > 0 {
					w = before[len(before)-1]
					w.c = c
				}
				w.ask()
			default:
				w.visit()
				had[c.ID] = append(had[c.ID], w)
			}
		},
		Final: func(c *Client) {
			if c.ID == 0 && bounded {
				configure(c, historySetting, historyEvents)
			}
			of := had[c.ID]
			for _, w := range of[max(0, len(of)-witnessesMax):] {
				w.c = c
				w.why()
			}
			for _, key := range keys.all(c) {
				for range env.Target.Nodes() {
					(&witness{c: c, key: key}).history()
					c.Close()
					c.attempt++
				}
			}
		},
	}
}

// witnessesMax bounds how many of its own locks a worker asks about at the end.
const witnessesMax = 20

// configure changes a setting of the nodes.
func configure(c *Client, setting, value string) {
	for c.ctx.Err() == nil {
		cmds := [][]string{{"CONFIG", "SET", setting, value}}
		if _, ok := c.Do(Call{Op: "setting", In: []string{value}, Cmds: cmds, Out: word("OK")}); ok {
			return
		}
	}
}

// witness is a client with a lock whose history it will ask for.
type witness struct {
	c          *Client
	key, token string
	ms         int64     // of the lease; each lease is longer than the one before, so each changes the end
	granted    *sync.Map // see newForensics
}

// told is a grant: its token and its fence.
type told struct {
	token string
	fence int64
}

// call makes a request under a client name of its own, by which the history knows it.
func (w *witness) call(op string, out func([]target.Reply) ([]string, error), in []string, cmd ...string) Call {
	name := "w" + itoa(int64(w.c.ID)) + "." + itoa(w.c.env.Unique())
	return Call{Op: op, Key: w.key, In: append(in, name), Out: out, Cmds: [][]string{{"CLIENT", "SETNAME", name}, cmd}}
}

// visit takes the lock, and loses it.
func (w *witness) visit() {
	c := w.c
	if !w.take() {
		return
	}
	for range c.Rand.IntN(3) {
		c.Sleep(time.Duration(c.Rand.IntN(60)) * time.Millisecond)
		w.ms += 1 + c.Rand.Int64N(100)
		if !w.renew() {
			break
		}
	}
	if c.Rand.IntN(4) == 0 && !w.handOn() {
		return
	}
	switch c.Rand.IntN(10) {
	case 0: // the client dies, and the lease ends the lock
		c.Close()
	case 1:
		w.delete()
	case 2, 3, 4:
		c.Do(w.call("release", word("0", "1"), []string{w.token}, "EVAL", releaseScript, "1", w.key, w.token))
	default:
		w.unlock()
	}
	if c.Rand.IntN(4) == 0 {
		w.why()
	}
}

// handOn hands the lock to another token, in one of the ways of programs, and asks for the fence. It reports whether it
// is known who has the lock.
func (w *witness) handOn() (known bool) {
	c, next := w.c, "t"+itoa(w.c.env.Unique())
	w.ms += 1 + c.Rand.Int64N(100)
	ms := itoa(w.ms)
	cmd := []string{"SET", w.key, next, "IFEQ", w.token, "PX", ms}
	switch c.Rand.IntN(3) {
	case 0:
		cmd = []string{"EVAL", handScript, "1", w.key, w.token, next, ms}
	case 1:
		cmd = []string{"SET", w.key, next, "PX", ms, "IFDEQ", digestOf(w.token)}
	}
	out, ok := c.Do(w.call("hand", word("OK", "nil"), []string{next, ms, w.token}, cmd...))
	if ok && out[0] == "OK" {
		w.token = next
		c.Do(Call{Op: "fence", Key: w.key, Out: pairOf, Cmds: [][]string{{"EVAL_RO", holderFenceScript, "1", w.key}}})
	}
	return ok
}

// renew renews the lease of the lock.
func (w *witness) renew() (held bool) {
	ms := itoa(w.ms)
	return holds(w.c.Do(w.call("renew", number, []string{w.token, ms}, "RENEW", w.key, w.token, "PX", ms)))
}

// unlock releases the lock.
func (w *witness) unlock() {
	w.c.Do(w.call("release", word("0", "1"), []string{w.token}, "UNLOCK", w.key, w.token))
}

// take takes the lock in one of the ways of programs. It reports whether the lock was granted.
func (w *witness) take() bool {
	c, ms := w.c, itoa(w.ms)
	acquire := func(cmd ...string) bool {
		return holds(c.Do(w.call("acquire", word("OK", "nil"), []string{w.token, ms}, cmd...)))
	}
	switch c.Rand.IntN(10) {
	case 0:
		return w.heard(c.Do(w.lock("try", 0)))
	case 1, 2:
		return acquire("SET", w.key, w.token, "NX", "PX", ms)
	case 3, 4:
		return acquire("EVAL", acquireScript, "1", w.key, w.token, ms)
	case 5: // the client breaks its connection, and returns or not
		call := w.lock("enter", c.Rand.Int64N(waitMax/2))
		call.Die, call.Pause = true, time.Duration(c.Rand.IntN(100))*time.Millisecond
		c.Do(call)
		if c.Rand.IntN(2) == 0 {
			return false
		}
	}
	return w.heard(c.Do(w.lock("enter", c.Rand.Int64N(waitMax/2))))
}

// heard notes the grant of an answer of LOCK, and reports whether it is one.
func (w *witness) heard(out []string, ok bool) bool {
	if !holds(out, ok) {
		return false
	}
	fence, err := strconv.ParseInt(out[0], 10, 64)
	if err == nil {
		w.granted.Store(w.key, told{w.token, fence})
	}
	return err == nil
}

// lock makes the call of LOCK.
func (w *witness) lock(op string, waitMs int64) Call {
	out := func(replies []target.Reply) ([]string, error) { return granted(replies[1:]) }
	call := w.call(op, out, []string{w.token, itoa(w.ms), itoa(waitMs)},
		"LOCK", w.key, w.token, "PX", itoa(w.ms), "WAIT", itoa(waitMs))
	call.Waits, call.Refusable = time.Duration(waitMs)*time.Millisecond, true
	return call
}

// end ends the lock of any holder. A value that is no lock is stored at every second key only.
func (w *witness) end() {
	c := w.c
	switch c.Rand.IntN(3) {
	case 0:
		w.delete()
	case 1:
		w.force("", 0)
	case 2:
		if w.key[len(w.key)-1]%2 == 1 {
			return
		}
		ms := itoa(50 + c.Rand.Int64N(200))
		c.Do(w.call("overwrite", word("OK"), []string{"data", ms}, "SET", w.key, "data", "PX", ms))
	}
}

// forceOne ends the lock for the holder with a token, with a fence, or with both. The holder may have changed, or is one
// with a token that begins so, or with the next fence or the one before.
func (w *witness) forceOne() {
	last, ok := w.granted.Load(w.key)
	if !ok {
		return
	}
	of, r := last.(told), w.c.Rand
	switch r.IntN(6) {
	case 0, 1:
		w.force(of.token[:len(of.token)-1], 0)
		return
	case 2:
		of.fence += 1 - 2*r.Int64N(2)
	}
	switch r.IntN(3) {
	case 0:
		of.token = ""
	case 1:
		of.fence = 0
	}
	w.force(of.token, of.fence)
}

// force ends the lock for a reason: if a token is given for that holder, and if a fence is given for the holder who has
// it.
func (w *witness) force(token string, fence int64) {
	reason := "r" + itoa(w.c.env.Unique()) + ": it hangs"
	in, cmd := []string{token, reason, ""}, []string{"LOCKS", "FORCE", w.key, "REASON", reason}
	if token != "" {
		cmd = append(cmd, "TOKEN", token)
	}
	if fence > 0 {
		in[2] = itoa(fence)
		cmd = append(cmd, "FENCE", in[2])
	}
	w.c.Do(w.call("force", number, in, cmd...))
}

// delete deletes the lock.
func (w *witness) delete() { w.c.Do(w.call("delete", word("0", "1"), nil, "DEL", w.key)) }

// ask asks for the history of the lock, and what became of its own token.
func (w *witness) ask() {
	if w.token != "" {
		w.why()
	}
	w.history()
}

// history asks for the events of the lock.
func (w *witness) history() {
	cmds := [][]string{{"LOCKS", "HISTORY", w.key, "COUNT", historyEvents}}
	w.c.Do(Call{Op: "history", Key: w.key, Out: toldHistory, Cmds: cmds})
}

// why asks what became of the token.
func (w *witness) why() {
	cmds := [][]string{{"LOCKS", "WHY", w.key, w.token}}
	w.c.Do(Call{Op: "why", Key: w.key, In: []string{w.token}, Out: toldWhy, Cmds: cmds})
}

// mapOf makes a map of the flat array that a map is in RESP2, without nil values.
func mapOf(r target.Reply) map[string]target.Reply {
	m := map[string]target.Reply{}
	for i := 0; i+1 < len(r.Elems); i += 2 {
		if !r.Elems[i+1].Nil {
			m[r.Elems[i].Text()] = r.Elems[i+1]
		}
	}
	return m
}

// toldOfEvent are the fields of an event that are recorded.
var toldOfEvent = []string{
	"event", "token", "fence", "by", "client-name", "reason", "tick", "held-ms", "lease-ms", "renewals",
}

// toldHistory makes a result of LOCKS HISTORY: since when it is complete, and the events.
func toldHistory(replies []target.Reply) ([]string, error) {
	all := mapOf(replies[0])
	if all["events"].Kind != '*' {
		return nil, errShape
	}
	out := []string{all["known-since"].Text()}
	for _, r := range all["events"].Elems {
		event, words := mapOf(r), []string(nil)
		for _, name := range toldOfEvent {
			words = append(words, event[name].Text())
		}
		out = append(out, strings.Join(words, "|"))
	}
	return out, nil
}

// Parts of the sentences of LOCKS WHY.
var (
	whyFence  = regexp.MustCompile(`\(fence (\d+)\)`)
	whyNext   = regexp.MustCompile(` Next was (\S+) at \S+ \(fence (\d+)\)\.$`)
	whyReason = regexp.MustCompile(`, because: (.*), after \d+ ms, `)
	whyEnds   = []struct{ says, is string }{
		{" by DEL of ", "DEL"}, {" by DEL,", "DEL"},
		{" and released it at ", "released"}, {": its lease of ", "expired"}, {": deleted by ", "deleted"},
		{": overwritten by ", "overwritten"}, {": ended by LOCKS FORCE", "forced"},
		{" in vain: its time was over at ", "gave-up"}, {" in vain: UNLOCK ended the wait at ", "left"},
		{"; another one took its place at ", "replaced"}, {" in vain: its client, or its node, was gone at ", "gone"},
	}
)

// toldWhy makes a result of a sentence of LOCKS WHY: what happened, fence, reason, the next holder and its fence, and
// the sentence.
func toldWhy(replies []target.Reply) ([]string, error) {
	said := replies[0].Text()
	out := []string{"", "", "", "", "", said}
	if next := whyNext.FindStringSubmatchIndex(said); next != nil {
		out[3], out[4] = said[next[2]:next[3]], said[next[4]:next[5]]
		said = said[:next[0]]
	}
	if fence := whyFence.FindStringSubmatch(said); fence != nil {
		out[1] = fence[1]
	}
	if reason := whyReason.FindStringSubmatch(said); reason != nil {
		out[2] = reason[1]
	}
	for _, end := range whyEnds {
		if strings.Contains(said, end.says) {
			out[0] = end.is
			return out, nil
		}
	}
	switch {
	case strings.HasPrefix(said, "Nothing is known of "):
		out[0] = "nothing"
	case strings.Contains(said, " has waited for "):
		out[0] = "waits"
	case out[1] != "":
		out[0] = "held"
	default:
		return nil, errShape
	}
	return out, nil
}
