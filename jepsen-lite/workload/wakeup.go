package workload

import (
	"time"

	"lockd/jepsen-lite/history"
	"lockd/jepsen-lite/target"
)

const wakeScript = `redis.call('incr', KEYS[1]) redis.call('publish', KEYS[2], ARGV[1]) return 1`

// A listener pings, so that it notices a node that does not answer any more.
const (
	listenPing = 500 * time.Millisecond
	listenMax  = 20 * time.Second // then it listens elsewhere
)

// newWakeUp: half of the workers listen through all nodes, half publish, by PUBLISH
// and from scripts.
func newWakeUp(env *Env) Plan {
	return Plan{Step: func(c *Client) {
		channel := c.Key("ch" + itoa(int64(c.Rand.IntN(2))))
		if c.ID%2 == 0 {
			c.listen(channel, nil)
			return
		}
		text := "m" + itoa(env.Unique())
		cmd := []string{"PUBLISH", channel, text}
		if c.Rand.IntN(2) == 0 {
			cmd = []string{"EVAL", wakeScript, "2", c.Key("n"), channel, text}
		}
		c.Do(Call{Op: "publish", Key: channel, In: []string{text}, Cmds: [][]string{cmd}, Out: number})
	}}
}

// listen subscribes and records what it hears, until it is cut off or has listened
// for long; keep chooses messages, nil keeps all.
func (c *Client) listen(channel string, keep func(text string) bool) {
	out, ok := c.Do(Call{Op: "listen", Key: channel, Cmds: [][]string{{"SUBSCRIBE", channel}}, Out: subscribed})
	if !ok || out[0] != "OK" || c.conn == nil {
		return
	}
	defer c.Close()
	until := time.Now().Add(time.Duration(c.Rand.Int64N(int64(listenMax))))
	pinged, answered := time.Now(), time.Now()
	for time.Now().Before(until) && c.ctx.Err() == nil {
		if time.Since(pinged) > listenPing {
			pinged = time.Now()
			if c.conn.Send(answerMax, []string{"PING"}) != nil {
				break
			}
		}
		r, err := c.conn.Wait(100 * time.Millisecond)
		switch {
		case err == target.ErrQuiet && time.Since(answered) > answerMax:
			c.mark("cut", channel, "") // a client would look again
			return
		case err == target.ErrQuiet:
			continue
		case err != nil:
			c.mark("cut", channel, "")
			return
		}
		answered = time.Now()
		if r.Kind == '*' && len(r.Elems) == 3 && r.Elems[0].Str == "message" && (keep == nil || keep(r.Elems[2].Str)) {
			c.mark("message", channel, r.Elems[2].Str)
		}
	}
	c.mark("cut", channel, "")
}

// mark records something that happened to the client.
func (c *Client) mark(op, key, value string) {
	ev := history.Event{Process: c.process, Type: history.Invoke, Op: op, Key: key, Node: c.node}
	c.env.History.Record(ev)
	ev.Type, ev.Value = history.OK, []string{value}
	c.env.History.Record(ev)
}

func subscribed(replies []target.Reply) ([]string, error) {
	if r := replies[0]; r.Kind != '*' || len(r.Elems) != 3 || r.Elems[0].Str != "subscribe" {
		return nil, errShape
	}
	return []string{"OK"}, nil
}
