package workload

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"lockd/jepsen-lite/model"
	"lockd/jepsen-lite/target"
)

// taking is a way to take elements of a key for which clients wait. seconds is a place in seize.
type taking struct {
	name  string
	kind  string // "list" or "zset"
	seize []string
}

// takings are the commands that wait for elements. The words KEY, MOVED and SECONDS stand for what they say.
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

// probeWait is for how long the clients of a probe wait, while the work lasts so long.
const probeWait = 14 * time.Second

// probes are the keys of a run that are looked at once more at its end.
type probes struct {
	mu  sync.Mutex
	all []probe
}

// probe is a key for whose elements two clients wait, of which one hangs up, or is at a node that something happens to.
type probe struct {
	taking
	key string
}

// run offers elements to two clients who wait for them: as the first one hangs up, or when something has become of
// its node. Then it looks at what is there.
func (p *probes) run(c *Client) {
	n := c.env.Unique()
	one := probe{takings[c.Rand.IntN(len(takings))], c.Key("probe" + itoa(n))}
	w := newWatch(c)
	if c.Rand.IntN(partOneIn) == 0 {
		w.part(func(_ int, c *Client, pause time.Duration) { one.take(c, pause) }, func() { one.offer(c, n) })
	} else {
		w.stand(func(_ int, c *Client) { one.take(c, 0) })
		one.offer(c, n)
	}
	w.all.Wait()
	one.look(c)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, one)
}

// offer adds three elements, whose names end with n: when each of the others has one, there is another one beside which
// an element may come back.
func (p probe) offer(c *Client, n int64) {
	a, b, z := "a"+itoa(n), "b"+itoa(n), "z"+itoa(n)
	call := Call{Op: "offer", Key: p.key, In: []string{p.name, a, b, z},
		Cmds: [][]string{{"RPUSH", p.key, a, b, z}}, Out: number}
	if p.kind == "zset" {
		call.In = []string{p.name, a + "=1", b + "=2", z + "=3"}
		call.Cmds = [][]string{{"ZADD", p.key, "1", a, "2", b, "3", z}}
	}
	c.Do(call)
}

// take waits for elements; after a pause that is not 0 the client hangs up.
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

func (p probe) moved() string { return p.key + ":moved" }

// taken lists the elements of an answer, or nil.
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

// scored joins members with their scores, which stand in pairs, or one after the other.
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

// look reads what is there, and what was moved, at one moment.
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

// lookAgain looks at a share of the keys once more.
func (p *probes) lookAgain(c *Client) {
	p.mu.Lock()
	all := p.all
	p.mu.Unlock()
	for i := c.ID; i < len(all); i += c.env.Workers {
		all[i].look(c)
	}
}
