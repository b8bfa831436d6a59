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

// newBank makes transfers by WATCH, MULTI and EXEC, and by EVAL, and reads by MGET, MULTI and EVAL. Each transfer
// writes its number into a ledger.
func newBank(env *Env) Plan {
	var last atomic.Int64
	return Plan{
		Setup: func(c *Client) {
			b := bank{c}
			cmd, in := []string{"MSET"}, []string{}
			for i := range accounts {
				cmd = append(cmd, b.account(i), "100")
				in = append(in, "100")
			}
			for c.ctx.Err() == nil {
				if _, ok := c.Do(Call{Op: "init", Key: "bank", In: in, Cmds: [][]string{cmd}, Out: word("OK")}); ok {
					return
				}
			}
		},
		Step: func(c *Client) {
			b := bank{c}
			t := transfer{id: last.Add(1), from: c.Rand.IntN(accounts), amount: 1 + c.Rand.Int64N(30)}
			t.to = (t.from + 1 + c.Rand.IntN(accounts-1)) % accounts
			switch c.Rand.IntN(6) {
			case 0:
				b.readLedger(t.id / ledgerMax)
			case 1:
				b.readBalances()
			case 2, 3:
				call := b.transfer(t)
				call.Cmds = [][]string{{
					"EVAL", transferScript, "3", b.account(t.from), b.account(t.to), call.Key, itoa(t.amount),
					itoa(t.id),
				}}
				call.Out = word("done", "poor")
				c.Do(call)
			case 4, 5:
				b.transferWatched(t)
			}
		},
		Final: func(c *Client) {
			b := bank{c}
			for n := int64(c.ID); n <= last.Load()/ledgerMax; n += int64(env.Workers) {
				b.readLedger(n)
			}
			b.readBalances()
		},
	}
}

// bank is a client of the bank's accounts and ledgers.
type bank struct{ *Client }

// transfer is one of an amount from one account to another.
type transfer struct {
	id, amount int64
	from, to   int
}

// ledger returns the key of a ledger.
func (b bank) ledger(n int64) string { return b.Key("ledger" + itoa(n)) }

// transfer makes the call of a transfer, without its commands.
func (b bank) transfer(t transfer) Call {
	return Call{
		Op:  "transfer",
		Key: b.ledger(t.id / ledgerMax),
		In:  []string{itoa(int64(t.from)), itoa(int64(t.to)), itoa(t.amount), itoa(t.id)},
	}
}

// readLedger reads all transfers of a ledger.
func (b bank) readLedger(n int64) {
	key := b.ledger(n)
	b.Do(Call{Op: "ledger", Key: key, Cmds: [][]string{{"HGETALL", key}}, Out: members})
}

// account returns the key of an account.
func (b bank) account(i int) string { return b.Key("a" + itoa(int64(i))) }

// readBalances reads all accounts at one moment.
func (b bank) readBalances() {
	mget := []string{"MGET"}
	eval := []string{"EVAL", `return redis.call('mget', unpack(KEYS))`, strconv.Itoa(accounts)}
	multi := [][]string{{"MULTI"}}
	for i := range accounts {
		mget, eval = append(mget, b.account(i)), append(eval, b.account(i))
		multi = append(multi, []string{"GET", b.account(i)})
	}
	multi = append(multi, []string{"EXEC"})
	cmds := [][][]string{{mget}, {eval}, multi}[b.Rand.IntN(3)]
	b.Do(Call{Op: "read", Key: "bank", Cmds: cmds, Out: members})
}

// transferWatched reads two balances under WATCH and writes both in a MULTI. The read and the write are two operations
// on one connection: if it breaks between them, nothing was written.
func (b bank) transferWatched(t transfer) {
	from, to := b.account(t.from), b.account(t.to)
	out, ok := b.Do(Call{Op: "look", Key: "bank", Cmds: [][]string{{"WATCH", from, to}, {"MGET", from, to}}, Out: members})
	if !ok || len(out) != 2 {
		return
	}
	have, err1 := strconv.ParseInt(out[0], 10, 64)
	other, err2 := strconv.ParseInt(out[1], 10, 64)
	conn := b.conn
	if err1 != nil || err2 != nil || have < t.amount || conn == nil {
		b.unwatch()
		return
	}
	call := b.transfer(t)
	call.Same, call.Out = conn, executed("done")
	call.Cmds = [][]string{
		{"MULTI"},
		{"SET", from, itoa(have - t.amount)},
		{"SET", to, itoa(other + t.amount)},
		{"HINCRBY", call.Key, itoa(t.id), "1"},
		{"EXEC"},
	}
	b.Do(call)
}

// unwatch ends a WATCH without a transfer.
func (b bank) unwatch() {
	b.Do(Call{Op: "look", Key: "bank", Cmds: [][]string{{"UNWATCH"}}, Out: word("OK")})
}

// executed makes a result of the reply of EXEC: done, or "aborted" for nil.
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
