package workload

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"lockd/jepsen-lite/model"
	"lockd/jepsen-lite/target"
)

// taking is a way to wait for elements and take them.
type taking struct {
	name string
	kind string // "list" or "zset"
	// the command
	seize []string
}

// takings are the commands that wait for elements. KEY, MOVED and SECONDS stand for the key, the target of a move, and
// the timeout.
var takings = []taking{
	{"left", "list", []string{"BLPOP", "KEY", "SECONDS"}},
	{"right", "list", []string{"BRPOP", "KEY", "SECONDS"}},
	{"left-two", "list", []string{"BLMPOP", "SECONDS", "1", "KEY", "LEFT", "COUNT", "2"}},
	{"left-move", "list", []string{"BLMOVE", "KEY", "MOVED", "LEFT", "RIGHT", "SECONDS"}},
	{"right-move", "list", []string{"BRPOPLPUSH", "KEY", "MOVED", "SECONDS"}},
	{"left", "zset", []string{"BZPOPMIN", "KEY", "SECONDS"}},
	{"right", "zset", []string{"BZPOPMAX", "KEY", "SECONDS"}},
	{"left-two", "zset", []string{"BZMPOP", "SECONDS", "1", "KEY", "MIN", "COUNT", "2"}},
}

// probeWait bounds the wait of a probe's clients, if the work lasts so long.
const probeWait = 14 * time.Second

// probes are the keys of a run, which are read once more at its end.
type probes struct {
	mu  sync.Mutex
	all []probe
}

// probe is a key for whose elements two clients wait. The first one hangs up, or something happens to its node.
type probe struct {
	taking
	key string
	few bool // one element is offered, and not three
}

// run offers elements to two waiting clients: when the first one hangs up, or after something has happened to its node.
// Then it reads the key.
func (p *probes) run(c *Client) {
	n := c.env.Unique()
	one := probe{taking: takings[c.Rand.IntN(len(takings))], key: c.Key("probe" + itoa(n))}
	w := newSuccession(c)
	if c.Rand.IntN(hangUpOneIn) == 0 {
		w.hangUpAt(func(_ int, c *Client, pause time.Duration) { one.take(c, pause) }, func() { one.offer(c, n) })
	} else {
		one.few = c.Rand.IntN(fewOneIn) == 0
		w.standInLine(func(_ int, c *Client) { one.take(c, 0) })
		one.offer(c, n)
	}
	w.all.Wait()
	one.look(c)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, one)
}

// fewOneIn is the mean number of probes without a client that hangs up among which one offers a single element: the second
// waiter gets nothing then if the first one does.
const fewOneIn = 2

// offer adds three elements, whose names end with n. If each of the waiters gets one, there is a third one, beside
// which an element may be put back. Or it adds one.
func (p probe) offer(c *Client, n int64) {
	names, in, cmd := []string{"a", "b", "z"}, []string{p.name}, []string{"RPUSH", p.key}
	if p.few {
		names = names[:1]
	}
	if p.kind == "zset" {
		cmd[0] = "ZADD"
	}
	for i, name := range names {
		element := name + itoa(n)
		if p.kind == "zset" {
			score := itoa(int64(i + 1))
			cmd = append(cmd, score)
			in = append(in, element+"="+score)
		} else {
			in = append(in, element)
		}
		cmd = append(cmd, element)
	}
	c.Do(Call{Op: "offer", Key: p.key, In: in, Cmds: [][]string{cmd}, Out: number})
}

// take waits for elements. If hangUp is not 0, the client hangs up after so long.
func (p probe) take(c *Client, hangUp time.Duration) {
	var cmd []string
	wait := c.env.withinWork(probeWait)
	for _, word := range p.seize {
		switch word {
		case "KEY":
			word = p.key
		case "MOVED":
			word = p.moved()
		case "SECONDS":
			word = strconv.FormatFloat(wait.Seconds(), 'f', 3, 64)
		}
		cmd = append(cmd, word)
	}
	c.Do(Call{Op: "seize", Key: p.key, In: []string{p.name, itoa(wait.Milliseconds())}, Cmds: [][]string{cmd},
		Waits: wait, HangUp: hangUp > 0, Pause: hangUp, Out: p.taken})
}

// moved returns the key to which elements are moved.
func (p probe) moved() string { return p.key + ":moved" }

// taken makes a result of the elements in a reply, or nil.
func (p probe) taken(replies []target.Reply) ([]string, error) {
	r := replies[0]
	switch {
	case r.Nil:
		return []string{"nil"}, nil
	case strings.HasSuffix(p.name, "-move"):
		return []string{r.Str}, nil
	case p.name == "left-two" && len(r.Elems) == 2 && p.kind == "list":
		return r.Elems[1].Texts(), nil
	case p.name == "left-two" && len(r.Elems) == 2:
		return scored(r.Elems[1].Elems)
	case len(r.Elems) == 3 && p.kind == "zset":
		return []string{r.Elems[1].Str + "=" + r.Elems[2].Str}, nil
	case len(r.Elems) == 2 && p.kind == "list":
		return []string{r.Elems[1].Str}, nil
	}
	return nil, errShape
}

// scored joins members with their scores, which come in pairs or flat.
func scored(elems []target.Reply) (all []string, err error) {
	var flat []string
	for _, e := range elems {
		if e.Kind == '*' {
			flat = append(flat, e.Texts()...)
		} else {
			flat = append(flat, e.Text())
		}
	}
	if len(flat)%2 != 0 {
		return nil, errShape
	}
	for i := 0; i < len(flat); i += 2 {
		all = append(all, flat[i]+"="+flat[i+1])
	}
	return all, nil
}

// look reads the key and the moved elements at one moment.
func (p probe) look(c *Client) {
	read := []string{"LRANGE", p.key, "0", "-1"}
	if p.kind == "zset" {
		read = []string{"ZRANGE", p.key, "0", "-1", "WITHSCORES"}
	}
	c.Do(Call{Op: "rest", Key: p.key,
		Cmds: [][]string{{"MULTI"}, read, {"LRANGE", p.moved(), "0", "-1"}, {"EXEC"}},
		Out: func(replies []target.Reply) ([]string, error) {
			lists := replies[len(replies)-1].Elems
			if len(lists) != 2 {
				return nil, errShape
			}
			out := lists[0].Texts()
			if p.kind == "zset" {
				var err error
				if out, err = scored(lists[0].Elems); err != nil {
					return nil, err
				}
			}
			for _, value := range lists[1].Texts() {
				out = append(out, model.Moved+value)
			}
			return out, nil
		}})
}

// lookAgain reads a share of the keys once more.
func (p *probes) lookAgain(c *Client) {
	p.mu.Lock()
	all := p.all
	p.mu.Unlock()
	for i := c.ID; i < len(all); i += c.env.Workers {
		all[i].look(c)
	}
}
