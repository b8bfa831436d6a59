package workload

import (
	"strconv"
	"time"

	"lockd/jepsen-lite/target"
)

// extendScript has a lock last until another moment.
const extendScript = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call(ARGV[3], KEYS[1], ARGV[2]) ` +
	`end return 0`

const (
	// momentLocks is the number of locks.
	momentLocks = 8
	// momentLate bounds how long after its moment the end of a lease is waited for.
	momentLate = 3 * time.Second
)

// newMoments takes locks until a moment, which the client reads off its own clock, as programs do that take locks by
// PXAT. It looks at a lock through changing nodes, has it last until another moment, and gives it up or lets it end.
// Meanwhile it asks for the time of the cluster.
func newMoments(env *Env) Plan {
	return Plan{
		Setup: func(c *Client) {
			sayNow(c)
			for !askTime(c) && c.ctx.Err() == nil {
				c.Sleep(retryPause)
			}
		},
		Step: func(c *Client) {
			if c.Rand.IntN(20) == 0 {
				sayNow(c)
			}
			if c.Rand.IntN(3) == 0 {
				askMoment(c)
				return
			}
			key := c.Key("until" + itoa(c.Rand.Int64N(momentLocks)))
			m := &momentary{c: c, key: key, token: "t" + itoa(env.Unique())}
			if m.take() {
				m.hold()
			}
		},
	}
}

// sayNow records the clock of this machine, which is the true time.
func sayNow(c *Client) {
	c.Local("now", "", nil, func() string { return itoa(time.Now().UnixMicro()) })
}

// askMoment asks for the time of the cluster in one of two ways.
func askMoment(c *Client) {
	if c.Rand.IntN(2) == 0 {
		askTime(c)
		return
	}
	key := c.Key("stream" + itoa(c.env.Unique())) // ids of one stream rise by themselves
	c.Do(Call{
		Op: "id", Key: key, Cmds: [][]string{{"XADD", key, "*", "f", "v"}, {"DEL", key}},
		Out: func(replies []target.Reply) ([]string, error) { return []string{replies[0].Text()}, nil },
	})
}

// askTime asks for it by TIME.
func askTime(c *Client) (ok bool) {
	_, ok = c.Do(Call{Op: "time", Cmds: [][]string{{"TIME"}}, Out: timeOf})
	return ok
}

// timeOf makes a result of the reply of TIME: microseconds since 1970.
func timeOf(replies []target.Reply) ([]string, error) {
	parts := replies[0].Texts()
	if len(parts) != 2 {
		return nil, errShape
	}
	sec, err := strconv.ParseInt(parts[0], 10, 64)
	if err != nil {
		return nil, err
	}
	us, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil {
		return nil, err
	}
	return []string{itoa(sec*1_000_000 + us)}, nil
}

// momentary is one try to hold a lock until a moment.
type momentary struct {
	c          *Client
	key, token string
	until      time.Time
	ms         int64 // how far ahead that was when it was said
}

// moment draws a moment: every fourth one is a whole second. option and number say it in a SET.
func (m *momentary) moment() (at time.Time, option, number string) {
	m.ms = timeToLive(m.c)
	at = time.Now().Add(time.Duration(m.ms) * time.Millisecond).Truncate(time.Millisecond)
	if m.c.Rand.IntN(4) > 0 {
		return at, "PXAT", itoa(at.UnixMilli())
	}
	at = at.Truncate(time.Second).Add(time.Second)
	return at, "EXAT", itoa(at.Unix())
}

// take asks for the lock.
func (m *momentary) take() (taken bool) {
	at, option, number := m.moment()
	out, ok := m.c.Do(Call{
		Op: "take", Key: m.key, In: []string{m.token, itoa(at.UnixMilli())},
		Cmds: [][]string{{"SET", m.key, m.token, "NX", option, number}}, Out: word("OK", "nil"),
	})
	m.until = at
	return ok && out[0] == "OK"
}

// hold does what a holder does until its lease has ended.
func (m *momentary) hold() {
	c := m.c
	for c.ctx.Err() == nil && time.Until(m.until) > -momentLate {
		there, over := true, time.Now().After(m.until)
		switch what := c.Rand.IntN(16); {
		case what < 1 && !over:
			m.drop()
			return
		case what < 3 && !over:
			there = m.extend()
		case what < 6:
			askMoment(c)
		default:
			there = m.look()
		}
		if !there {
			return
		}
		c.Sleep(untilLook(c, m.ms, m.until))
	}
}

// look asks for the holder. It returns false when that is another one, or there is none.
func (m *momentary) look() (held bool) {
	out, ok := m.c.Do(Call{Op: "holder", Key: m.key, In: []string{m.token}, Cmds: [][]string{{"GET", m.key}}})
	return !ok || out[0] == m.token
}

// extend has the lock last until another moment, mostly a later one.
func (m *momentary) extend() (held bool) {
	at, option, number := m.moment()
	command := map[string]string{"PXAT": "PEXPIREAT", "EXAT": "EXPIREAT"}[option]
	out, ok := m.c.Do(Call{
		Op: "extend", Key: m.key, In: []string{m.token, itoa(at.UnixMilli())},
		Cmds: [][]string{{"EVAL", extendScript, "1", m.key, m.token, number, command}}, Out: word("0", "1"),
	})
	m.until = at
	return ok && out[0] == "1"
}

// drop gives up the lock.
func (m *momentary) drop() {
	m.c.Do(Call{
		Op: "drop", Key: m.key, In: []string{m.token},
		Cmds: [][]string{{"EVAL", releaseScript, "1", m.key, m.token}}, Out: word("0", "1"),
	})
}
