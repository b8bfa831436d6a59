package workload

import (
	"strings"

	"lockd/jepsen-lite/target"
)

// newList pushes unique values at both ends of short lists and takes them, and appends to long lists. It reads both as
// a whole.
func newList(env *Env) Plan {
	queues := newShortLived(env, "q")
	return Plan{
		Step: func(c *Client) {
			if c.Rand.IntN(2) == 0 {
				useQueue(c, queues.key(c))
				return
			}
			n := env.Unique()
			key := c.Key("l" + itoa(n/membersMax))
			if c.Rand.IntN(6) == 0 {
				readList(c, "all", key)
				return
			}
			c.Do(Call{
				Op:   "append",
				Key:  key,
				In:   []string{itoa(n)},
				Cmds: [][]string{{"RPUSH", key, itoa(n)}},
				Out:  number,
			})
		},
		Final: func(c *Client) {
			for n := int64(c.ID); n <= env.Unique()/membersMax; n += int64(env.Workers) {
				readList(c, "all", c.Key("l"+itoa(n)))
			}
		},
	}
}

// useQueue performs a random operation on a short list.
func useQueue(c *Client, key string) {
	value := itoa(c.env.Unique())
	switch c.Rand.IntN(8) {
	case 0, 1, 2:
		c.Do(Call{Op: "rpush", Key: key, In: []string{value}, Cmds: [][]string{{"RPUSH", key, value}}, Out: number})
	case 3:
		c.Do(Call{Op: "lpush", Key: key, In: []string{value}, Cmds: [][]string{{"LPUSH", key, value}}, Out: number})
	case 4, 5:
		c.Do(Call{Op: "lpop", Key: key, Cmds: [][]string{{"LPOP", key}}})
	case 6:
		c.Do(Call{Op: "llen", Key: key, Cmds: [][]string{{"LLEN", key}}, Out: number})
	case 7:
		readList(c, "range", key)
	}
}

// readList reads a whole list.
func readList(c *Client, op, key string) {
	c.Do(Call{Op: op, Key: key, Cmds: [][]string{{"LRANGE", key, "0", "-1"}}, Out: members})
}

// Keys of append that are in use at the same time, and how many values are written to them before others take their
// place: reads cost what a list holds.
const (
	appendLists     = 3
	appendRegisters = 2
	appendValues    = 300
)

// appendScript does the steps of a transaction: KEYS[i] is the key of a step, ARGV[i] the name of its command, and what
// the command has behind the key, separated by a space each.
const appendScript = `local out = {} for i, key in ipairs(KEYS) do local words = {} ` +
	`for word in string.gmatch(ARGV[i], '%S+') do words[#words + 1] = word end ` +
	`out[i] = redis.call(words[1], key, unpack(words, 2)) end return out`

// newAppend reads and writes several lists and registers at once: by MULTI and EXEC, by a script, or by a plain
// pipeline.
func newAppend(env *Env) Plan {
	return Plan{
		Step: func(c *Client) {
			epoch, t := env.Unique()/appendValues, &appending{c: c}
			if c.Rand.IntN(8) == 0 {
				t.readAll(epoch)
			} else {
				for range 2 + c.Rand.IntN(3) {
					t.step(epoch)
				}
			}
			t.send([]string{"multi", "multi", "eval", "eval", "pipe"}[c.Rand.IntN(5)])
		},
		Final: func(c *Client) {
			for epoch := int64(c.ID); epoch <= env.Unique()/appendValues; epoch += int64(env.Workers) {
				t := &appending{c: c}
				t.readAll(epoch)
				t.send("multi")
			}
		},
	}
}

// appending is a transaction over several keys.
type appending struct {
	c      *Client
	words  []string   // of the history
	cmds   [][]string // each with its key behind its name
	writes bool
}

// add adds a step. The word of the history is the short name of the key and what is written.
func (t *appending) add(key, written string, cmd ...string) {
	t.words = append(t.words, key+written)
	t.cmds = append(t.cmds, append([]string{cmd[0], t.c.Key(key)}, cmd[1:]...))
	t.writes = t.writes || written != ""
}

// step adds a random step. Two steps may have the same key.
func (t *appending) step(epoch int64) {
	r, value := t.c.Rand, itoa(t.c.env.Unique())
	list := "l" + itoa(epoch) + "." + itoa(int64(r.IntN(appendLists)))
	register := "r" + itoa(epoch) + "." + itoa(int64(r.IntN(appendRegisters)))
	switch r.IntN(7) {
	case 0, 1, 2:
		t.add(list, "+"+value, "RPUSH", value)
	case 3, 4:
		t.add(list, "", "LRANGE", "0", "-1")
	case 5:
		t.add(register, "="+value, "SET", value, "GET")
	case 6:
		t.add(register, "", "GET")
	}
}

// readAll adds reads of all keys.
func (t *appending) readAll(epoch int64) {
	for i := range int64(appendLists) {
		t.add("l"+itoa(epoch)+"."+itoa(i), "", "LRANGE", "0", "-1")
	}
	for i := range int64(appendRegisters) {
		t.add("r"+itoa(epoch)+"."+itoa(i), "", "GET")
	}
}

// send sends the transaction in one of three ways.
func (t *appending) send(way string) {
	call := Call{Op: "look", Key: way, In: t.words, Cmds: t.cmds, Out: members}
	if t.writes {
		call.Op = "txn"
	}
	switch way {
	case "pipe":
		call.Out = func(replies []target.Reply) ([]string, error) { return target.Reply{Elems: replies}.Texts(), nil }
	case "multi":
		call.Cmds = append([][]string{{"MULTI"}}, append(t.cmds, []string{"EXEC"})...)
	case "eval":
		call.Cmds = [][]string{t.script()}
	}
	t.c.Do(call)
}

// script returns the transaction as one call of a script; one that only reads is a read.
func (t *appending) script() []string {
	cmd := []string{"EVAL", appendScript, itoa(int64(len(t.cmds)))}
	if !t.writes && t.c.Rand.IntN(2) == 0 {
		cmd[0] = "EVAL_RO"
	}
	var args []string
	for _, one := range t.cmds {
		cmd = append(cmd, one[1])
		args = append(args, strings.Join(append([]string{one[0]}, one[2:]...), " "))
	}
	return append(cmd, args...)
}
