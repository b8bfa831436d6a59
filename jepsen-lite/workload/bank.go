package workload

import (
	"strconv"

	"lockd/jepsen-lite/target"
)

const accounts = 5

const transferScript = `local have = tonumber(redis.call('get', KEYS[1])) local n = tonumber(ARGV[1]) ` +
	`if have < n then return 'poor' end redis.call('decrby', KEYS[1], n) redis.call('incrby', KEYS[2], n) return 'done'`

// newBank: transfers by WATCH, MULTI and EXEC, and by EVAL; reads by MGET, by MULTI
// and by EVAL.
func newBank(*Env) Plan {
	return Plan{
		Setup: func(c *Client) {
			cmd, in := []string{"MSET"}, []string{}
			for i := range accounts {
				cmd = append(cmd, c.account(i), "100")
				in = append(in, "100")
			}
			for c.ctx.Err() == nil {
				if _, ok := c.Do(Call{Op: "init", Key: "bank", In: in, Cmds: [][]string{cmd}, Out: word("OK")}); ok {
					return
				}
			}
		},
		Step: func(c *Client) {
			from := c.Rand.IntN(accounts)
			to := (from + 1 + c.Rand.IntN(accounts-1)) % accounts
			amount := itoa(1 + c.Rand.Int64N(30))
			switch c.Rand.IntN(3) {
			case 0:
				c.readBank()
			case 1:
				c.Do(Call{Op: "transfer", Key: "bank", In: []string{itoa(int64(from)), itoa(int64(to)), amount},
					Cmds: [][]string{{"EVAL", transferScript, "2", c.account(from), c.account(to), amount}}, Out: word("done", "poor")})
			case 2:
				c.watched(from, to, amount)
			}
		},
		Final: func(c *Client) { c.readBank() },
	}
}

func (c *Client) account(i int) string { return c.Key("a" + itoa(int64(i))) }

func (c *Client) readBank() {
	mget := []string{"MGET"}
	eval := []string{"EVAL", `return redis.call('mget', unpack(KEYS))`, strconv.Itoa(accounts)}
	multi := [][]string{{"MULTI"}}
	for i := range accounts {
		mget, eval = append(mget, c.account(i)), append(eval, c.account(i))
		multi = append(multi, []string{"GET", c.account(i)})
	}
	multi = append(multi, []string{"EXEC"})
	cmds := [][][]string{{mget}, {eval}, multi}[c.Rand.IntN(3)]
	c.Do(Call{Op: "read", Key: "bank", Cmds: cmds, Out: members})
}

// watched reads two balances under WATCH and writes both in a MULTI. The read and
// the write are two operations on one connection; if it breaks between them,
// nothing was written.
func (c *Client) watched(from, to int, amount string) {
	a, b := c.account(from), c.account(to)
	out, ok := c.Do(Call{Op: "look", Key: "bank", Cmds: [][]string{{"WATCH", a, b}, {"MGET", a, b}}, Out: members})
	if !ok || len(out) != 2 {
		return
	}
	have, err1 := strconv.ParseInt(out[0], 10, 64)
	other, err2 := strconv.ParseInt(out[1], 10, 64)
	n, _ := strconv.ParseInt(amount, 10, 64)
	conn := c.conn
	if err1 != nil || err2 != nil || have < n || conn == nil {
		c.unwatch()
		return
	}
	c.Do(Call{Op: "transfer", Key: "bank", In: []string{itoa(int64(from)), itoa(int64(to)), amount}, Same: conn,
		Cmds: [][]string{{"MULTI"}, {"SET", a, itoa(have - n)}, {"SET", b, itoa(other + n)}, {"EXEC"}}, Out: executed})
}

func (c *Client) unwatch() {
	c.Do(Call{Op: "look", Key: "bank", Cmds: [][]string{{"UNWATCH"}}, Out: word("OK")})
}

// executed is done, or aborted when EXEC answers nil.
func executed(replies []target.Reply) ([]string, error) {
	r := replies[len(replies)-1]
	switch {
	case r.Kind != '*':
		return nil, errShape
	case r.Nil:
		return []string{"aborted"}, nil
	}
	return []string{"done"}, nil
}
