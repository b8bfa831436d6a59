package workload

import (
	"strconv"
	"sync/atomic"

	"lockd/jepsen-lite/target"
)

const (
	accounts  = 5
	ledgerMax = 400 // transfers, so that reading it stays cheap
)

const transferScript = `local have = tonumber(redis.call('get', KEYS[1])) local n = tonumber(ARGV[1]) ` +
	`if have < n then return 'poor' end redis.call('decrby', KEYS[1], n) redis.call('incrby', KEYS[2], n) ` +
	`redis.call('hincrby', KEYS[3], ARGV[2], 1) return 'done'`

// newBank: transfers by WATCH, MULTI and EXEC, and by EVAL; reads by MGET, by MULTI
// and by EVAL. Each transfer notes its number in a ledger.
func newBank(env *Env) Plan {
	var last atomic.Int64
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
			t := transfer{id: last.Add(1), from: c.Rand.IntN(accounts), amount: 1 + c.Rand.Int64N(30)}
			t.to = (t.from + 1 + c.Rand.IntN(accounts-1)) % accounts
			switch c.Rand.IntN(6) {
			case 0:
				c.readLedger(t.id / ledgerMax)
			case 1:
				c.readBank()
			case 2, 3:
				call := c.transfer(t)
				call.Cmds = [][]string{{
					"EVAL", transferScript, "3", c.account(t.from), c.account(t.to), call.Key, itoa(t.amount),
					itoa(t.id),
				}}
				call.Out = word("done", "poor")
				c.Do(call)
			case 4, 5:
				c.watched(t)
			}
		},
		Final: func(c *Client) {
			for n := int64(c.ID); n <= last.Load()/ledgerMax; n += int64(env.Workers) {
				c.readLedger(n)
			}
			c.readBank()
		},
	}
}

// transfer is one of an amount from one account to another.
type transfer struct {
	id, amount int64
	from, to   int
}

func (c *Client) ledger(n int64) string { return c.Key("ledger" + itoa(n)) }

// transfer is the call for one, but for its commands.
func (c *Client) transfer(t transfer) Call {
	return Call{
		Op:  "transfer",
		Key: c.ledger(t.id / ledgerMax),
		In:  []string{itoa(int64(t.from)), itoa(int64(t.to)), itoa(t.amount), itoa(t.id)},
	}
}

func (c *Client) readLedger(n int64) {
	key := c.ledger(n)
	c.Do(Call{Op: "ledger", Key: key, Cmds: [][]string{{"HGETALL", key}}, Out: members})
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
func (c *Client) watched(t transfer) {
	a, b := c.account(t.from), c.account(t.to)
	out, ok := c.Do(Call{Op: "look", Key: "bank", Cmds: [][]string{{"WATCH", a, b}, {"MGET", a, b}}, Out: members})
	if !ok || len(out) != 2 {
		return
	}
	have, err1 := strconv.ParseInt(out[0], 10, 64)
	other, err2 := strconv.ParseInt(out[1], 10, 64)
	conn := c.conn
	if err1 != nil || err2 != nil || have < t.amount || conn == nil {
		c.unwatch()
		return
	}
	call := c.transfer(t)
	call.Same, call.Out = conn, executed("done")
	call.Cmds = [][]string{
		{"MULTI"},
		{"SET", a, itoa(have - t.amount)},
		{"SET", b, itoa(other + t.amount)},
		{"HINCRBY", call.Key, itoa(t.id), "1"},
		{"EXEC"},
	}
	c.Do(call)
}

func (c *Client) unwatch() {
	c.Do(Call{Op: "look", Key: "bank", Cmds: [][]string{{"UNWATCH"}}, Out: word("OK")})
}

// executed makes a result of the answer of EXEC: a word, or aborted when it is nil.
func executed(done string) func([]target.Reply) ([]string, error) {
	return func(replies []target.Reply) ([]string, error) {
		r := replies[len(replies)-1]
		switch {
		case r.Kind != '*':
			return nil, errShape
		case r.Nil:
			return []string{"aborted"}, nil
		}
		return []string{done}, nil
	}
}
