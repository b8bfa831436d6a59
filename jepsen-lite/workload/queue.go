package workload

import (
	"strconv"
	"time"

	"lockd/jepsen-lite/target"
)

// queuesMax is the number of queues that the workers share.
const queuesMax = 4

// newQueue pushes unique values, and has clients wait for them, or move them to a second list. Some clients hang up
// while they wait. At the end it reads what is left.
func newQueue(env *Env) Plan {
	own := &probes{}
	return Plan{
		Beside: own.run,
		Step: func(c *Client) {
			n := c.Rand.IntN(queuesMax)
			key := c.Key("q" + itoa(int64(n)))
			switch c.Rand.IntN(5) {
			case 0, 1:
				value := itoa(c.env.Unique())
				c.Do(Call{
					Op:   "push",
					Key:  key,
					In:   []string{value},
					Cmds: [][]string{{"RPUSH", key, value}},
					Out:  number,
				})
			case 2, 3:
				call := Call{Op: "pop", Key: key, Cmds: [][]string{{"BLPOP", key, waitSeconds(c)}}, Out: poppedFrom(key)}
				if call.HangUp = n%2 == 1 && c.Rand.IntN(3) == 0; call.HangUp { // the order is judged at the other queues
					call.Pause = time.Duration(c.Rand.IntN(40)) * time.Millisecond
				}
				c.Do(call)
			case 4:
				c.Do(Call{
					Op:   "move",
					Key:  key,
					Cmds: [][]string{{"BLMOVE", key, key + ":moved", "LEFT", "RIGHT", waitSeconds(c)}},
				})
			}
		},
		Final: func(c *Client) {
			for n := int64(c.ID); n < queuesMax; n += int64(env.Workers) {
				key := c.Key("q" + itoa(n))
				readLeft(c, key)
			}
			own.lookAgain(c)
		},
	}
}

// readLeft reads a queue and the moved values at one moment.
func readLeft(c *Client, key string) {
	c.Do(Call{Op: "left", Key: key,
		Cmds: [][]string{
			{"MULTI"},
			{"LRANGE", key, "0", "-1"},
			{"LRANGE", key + ":moved", "0", "-1"},
			{"EXEC"},
		}, Out: leftAndMoved})
}

// waitSeconds draws a timeout: 10 ms to half a second.
func waitSeconds(c *Client) string {
	return strconv.FormatFloat(
		(10*time.Millisecond + time.Duration(c.Rand.Int64N(int64(490*time.Millisecond)))).Seconds(),
		'f',
		3,
		64,
	)
}

// poppedFrom makes a result of the reply of BLPOP: the value, or nil.
func poppedFrom(key string) func([]target.Reply) ([]string, error) {
	return func(replies []target.Reply) ([]string, error) {
		switch out := replies[0].Texts(); {
		case replies[0].Nil:
			return []string{"nil"}, nil
		case len(out) == 2 && out[0] == key:
			return out[1:], nil
		}
		return nil, errShape
	}
}

// leftAndMoved lists the values that are left, and the moved ones with ">" before them.
func leftAndMoved(replies []target.Reply) ([]string, error) {
	lists := replies[len(replies)-1].Elems
	if len(lists) != 2 {
		return nil, errShape
	}
	out := lists[0].Texts()
	for _, value := range lists[1].Texts() {
		out = append(out, ">"+value)
	}
	return out, nil
}
