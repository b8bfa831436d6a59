package workload

import (
	"strings"
	"time"

	"lockd/jepsen-lite/history"
	"lockd/jepsen-lite/target"
)

// Messages carry a number without gaps on each channel, so that a gap shows.
const wakeScript = `local n = redis.call('incr', KEYS[1]) redis.call('publish', KEYS[2], n .. ':' .. ARGV[1]) return n`

// A listener pings, so that it notices a node that does not answer.
const (
	listenPing = 500 * time.Millisecond
	listenMax  = 20 * time.Second // after that it listens at another node
)

const wakeChannels = 2

// newWakeUp makes half of the workers listen through all nodes, and half publish, by scripts that count, and sometimes
// by PUBLISH.
func newWakeUp(env *Env) Plan {
	const lastText = "last"
	channel := func(c *Client, n int) string { return c.Key("ch" + itoa(int64(n))) }
	return Plan{
		Listen: func(c *Client) {
			listen(c, channel(c, c.Rand.IntN(wakeChannels)), func(_, text string) []string {
				if number, rest, counted := strings.Cut(text, ":"); counted {
					return []string{rest, number}
				}
				return []string{text}
			}, func(text string) bool { return strings.HasPrefix(text, lastText) })
		},
		Step: func(c *Client) {
			ch, text := channel(c, c.Rand.IntN(wakeChannels)), "m"+itoa(env.Unique())
			if c.Rand.IntN(4) > 0 {
				publish(c, ch, text)
				return
			}
			c.Do(Call{Op: "publish", Key: ch, In: []string{text}, Cmds: [][]string{{"PUBLISH", ch, text}}, Out: number})
		},
		Last: func(c *Client) {
			for n := range wakeChannels {
				for c.ctx.Err() == nil && !publish(c, channel(c, n), lastText+itoa(env.Unique())) {
				}
			}
		},
	}
}

// publish publishes a message with the next number of its channel.
func publish(c *Client, channel, text string) bool {
	_, ok := c.Do(Call{Op: "count-publish", Key: channel, In: []string{text},
		Cmds: [][]string{{"EVAL", wakeScript, "2", channel + ":n", channel, text}}, Out: number})
	return ok
}

// listen subscribes to a channel, or to all that a pattern matches, and records messages until it is cut off, has
// listened long enough, or has heard the last one. what returns the record of a message on a channel, or nil to ignore
// it.
func listen(c *Client, channel string, what func(channel, text string) []string, last func(text string) bool) {
	subscribe, message := "SUBSCRIBE", "message"
	if strings.Contains(channel, "*") {
		subscribe, message = "PSUBSCRIBE", "pmessage"
	}
	out, ok := c.Do(Call{Op: "listen", Key: channel, Cmds: [][]string{{subscribe, channel}}, Out: subscribed})
	if !ok || out[0] != "OK" || c.conn == nil {
		return
	}
	defer c.Close()
	until := time.Now().Add(time.Duration(c.Rand.Int64N(int64(listenMax))))
	pinged, answered := time.Now(), time.Now()
	for (time.Now().Before(until) || c.env.ending.Load()) && c.ctx.Err() == nil {
		if time.Since(pinged) > listenPing {
			pinged = time.Now()
			if c.conn.Send(answerMax, []string{"PING"}) != nil {
				break
			}
		}
		r, err := c.conn.Wait(100 * time.Millisecond)
		switch {
		case err == target.ErrQuiet && time.Since(answered) > answerMax:
			c.mark("cut", channel) // a program would check again
			return
		case err == target.ErrQuiet:
			continue
		case err != nil:
			c.mark("cut", channel)
			return
		}
		answered = time.Now()
		if r.Kind != '*' || len(r.Elems) < 3 || r.Elems[0].Str != message {
			continue
		}
		heard := what(r.Elems[len(r.Elems)-2].Str, r.Elems[len(r.Elems)-1].Str)
		if heard == nil {
			continue
		}
		if c.mark("message", channel, heard...); last(heard[0]) {
			break
		}
	}
	c.mark("cut", channel)
}

// mark records something that happened to the client.
func (c *Client) mark(op, key string, value ...string) {
	ev := history.Event{Process: c.process, Type: history.Invoke, Op: op, Key: key, Node: c.node}
	c.env.History.Record(ev)
	ev.Type, ev.Value = history.OK, value
	c.env.History.Record(ev)
}

// subscribed makes a result of the reply of SUBSCRIBE.
func subscribed(replies []target.Reply) ([]string, error) {
	if r := replies[0]; r.Kind != '*' || len(r.Elems) != 3 || strings.TrimPrefix(r.Elems[0].Str, "p") != "subscribe" {
		return nil, errShape
	}
	return []string{"OK"}, nil
}
