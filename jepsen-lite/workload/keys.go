package workload

import (
	"errors"
	"strings"
	"time"

	"lockd/jepsen-lite/model"
	"lockd/jepsen-lite/target"
)

// A scene of keys is played in two databases that no other scene uses at the time: SWAPDB and FLUSHDB concern them
// whole.
const pairs = 7 // of databases 1 to 14

// Times of a scene in ms.
const (
	sceneHold   = 30_000 // the lease of the first holder
	sceneLease  = 8_000  // the leases of those who wait
	sceneWait   = 12_000
	sceneInLine = 550 // between two requests, so that they are in line in their order
)

const (
	sceneLookScript = `local t, v = redis.call('type', KEYS[1])['ok'], '' ` +
		`if t == 'string' then v = redis.call('get', KEYS[1]) end ` +
		`return {t, v, redis.call('fence', KEYS[1]), redis.call('pttl', KEYS[1])}`
	giveScript = `return {redis.call('unlock', KEYS[1], ARGV[1]), redis.call('lock', KEYS[2], ARGV[2], 'PX', ARGV[3])}`
)

// newKeys has clients do to locks what moves, frees, overwrites or extends them, while others wait in line.
func newKeys(env *Env) Plan {
	free := make(chan int, pairs)
	for i := range pairs {
		free <- i
	}
	return Plan{Step: func(c *Client) {
		select {
		case pair := <-free:
			defer func() { free <- pair }()
			n := env.Unique()
			s := &scene{c: c, pair: pair, key: itoa(int64(pair)) + ".k" + itoa(n), name: c.Key("k" + itoa(n))}
			s.play()
		default:
			c.Sleep(time.Duration(sceneInLine) * time.Millisecond)
		}
	}}
}

// scene is a lock that one client has, for which two others wait, and to whose key something happens.
type scene struct {
	c    *Client
	pair int
	key  string // in the history
	name string // of the lock's key

	first string // the token of the first who waits
}

// at returns the database and the key of a place.
func (s *scene) at(place string) (db, key string) {
	db = itoa(int64(1 + 2*s.pair))
	if place[0] == 'b' {
		db = itoa(int64(2 + 2*s.pair))
	}
	if place[1] == '2' {
		return db, s.name + ":2"
	}
	return db, s.name
}

// do sends commands to the database of a place, and records them as an operation.
func (s *scene) do(c *Client, place string, call Call, cmds ...[]string) ([]string, bool) {
	db, _ := s.at(place)
	if call.Key == "" {
		call.Key = s.key
	}
	call.Cmds = append([][]string{{"SELECT", db}}, cmds...)
	return c.Do(call)
}

// token returns a new token.
func (s *scene) token() string { return "t" + itoa(s.c.env.Unique()) }

// take tries to take a lock, and reports whether that was answered with a grant.
func (s *scene) take(place, token, mode string) bool {
	_, key := s.at(place)
	cmd := []string{"LOCK", key, token, "PX", itoa(sceneHold)}
	switch mode {
	case shared:
		cmd = append(cmd, "SHARED")
	case "hash":
		cmd = []string{"EVAL", redissonLock, "1", key, itoa(sceneHold), token}
	}
	in := []string{token, itoa(sceneHold), "0", place, mode}
	out, ok := s.do(s.c, place, Call{Op: "try", In: in, Out: askedInScene(mode), Refusable: true}, cmd)
	return ok && out[0] != "nil" && out[0] != "wrongtype"
}

// enter waits in line for the lock, holds it for a moment, and releases it.
func (s *scene) enter(c *Client, token string) {
	_, key := s.at("a1")
	wait := c.env.withinWork(sceneWait * time.Millisecond)
	ms := itoa(wait.Milliseconds())
	out, ok := s.do(c, "a1", Call{Op: "enter", In: []string{token, itoa(sceneLease), ms, "a1", ""}, Waits: wait,
		Out: askedInScene(""), Refusable: true}, []string{"LOCK", key, token, "PX", itoa(sceneLease), "WAIT", ms})
	if ok && out[0] != "nil" && out[0] != "wrongtype" {
		c.Sleep(time.Duration(c.Rand.IntN(50)) * time.Millisecond)
		s.release(c, "a1", token)
	}
}

// askedInScene makes a result of the answer to a request for a lock.
func askedInScene(mode string) func([]target.Reply) ([]string, error) {
	return func(replies []target.Reply) ([]string, error) {
		r := replies[len(replies)-1]
		switch {
		case strings.HasPrefix(r.Str, "WRONGTYPE "):
			return []string{"wrongtype"}, nil
		case r.IsErr():
			return nil, errors.New(r.Str)
		case mode == "hash" && r.Nil:
			return []string{"taken"}, nil
		case mode == "hash":
			return []string{"nil"}, nil
		}
		return number(replies)
	}
}

// release releases a lock.
func (s *scene) release(c *Client, place, token string) {
	_, key := s.at(place)
	s.do(c, place, Call{Op: "release", In: []string{token, place}, Refusable: true,
		Out: func(replies []target.Reply) ([]string, error) {
			if strings.HasPrefix(replies[1].Str, "WRONGTYPE ") {
				return []string{"wrongtype"}, nil
			}
			return word("0", "1")(replies)
		}}, []string{"UNLOCK", key, token})
}

// look asks what a place holds.
func (s *scene) look(place string) {
	_, key := s.at(place)
	s.do(s.c, place, Call{Op: "look", In: []string{place}, Out: func(replies []target.Reply) ([]string, error) {
		out := replies[1].Texts()
		if len(out) != 4 {
			return nil, errShape
		}
		return out, nil
	}}, []string{"EVAL_RO", sceneLookScript, "1", key})
}

// change does something to keys of the database of a place. key is that of the history, or "" for the scene's.
func (s *scene) change(key, place, what string, in []string, cmds ...[]string) bool {
	_, ok := s.do(s.c, place, Call{Op: "change", Key: key, In: append([]string{what, s.key}, in...), Refusable: true,
		Out: func(replies []target.Reply) ([]string, error) {
			switch r := replies[len(replies)-1]; {
			case r.Str == "ERR no such key":
				return []string{"nokey"}, nil
			case firstError(replies) != "":
				return nil, errors.New(firstError(replies))
			case what == "list":
				return []string{"OK"}, nil
			case what == "give":
				return r.Texts(), nil
			default:
				return []string{r.Text()}, nil
			}
		}}, cmds...)
	return ok
}

// happening changes the key of a lock that h holds. Its function makes the change, and returns the token that then
// holds the lock; "": none does, or the key is no lock any more.
type happening struct {
	name string
	do   func(s *scene, h string) (held string)
	// before prepares other places.
	before func(s *scene)
	twin   bool // another client may have the lock of that name in the other database
}

// whole are ways to do two commands at once.
func (s *scene) whole(cmds ...[]string) [][]string {
	return append(append([][]string{{"MULTI"}}, cmds...), []string{"EXEC"})
}

// give has one token release a lock and another one take it, or another lock, at once.
func (s *scene) give(from, token, to, next string) bool {
	_, a := s.at(from)
	_, b := s.at(to)
	cmds := s.whole([]string{"UNLOCK", a, token}, []string{"LOCK", b, next, "PX", itoa(sceneHold)})
	if s.c.Rand.IntN(2) == 0 {
		cmds = [][]string{{"EVAL", giveScript, "2", a, b, token, next, itoa(sceneHold)}}
	}
	return s.change("", from, "give", []string{token, from, next, to, itoa(sceneHold)}, cmds...)
}

// list makes a list of what a place holds.
func (s *scene) list(place string) bool {
	_, key := s.at(place)
	return s.change("", place, "list", []string{place}, s.whole([]string{"DEL", key}, []string{"RPUSH", key, "x"})...)
}

// carry is RENAME and the like between two places.
func (s *scene) carry(what, from, to string) bool {
	_, a := s.at(from)
	db, b := s.at(to)
	cmd := []string{what, a, b}
	switch what {
	case "move":
		cmd = []string{what, a, db}
	case "copy":
		cmd = append(cmd, "DB", db, "REPLACE")
	}
	return s.change("", from, what, []string{from, to}, cmd)
}

// lease gives the lock another lease; 0 ends it.
func (s *scene) lease(ms int64) bool {
	_, key := s.at("a1")
	cmd := []string{"PEXPIRE", key, itoa(ms)}
	if ms%1000 == 0 {
		cmd = []string{"EXPIRE", key, itoa(ms / 1000)}
	}
	return s.change("", "a1", "expire", []string{"a1", itoa(ms)}, cmd)
}

// wide does something to whole databases.
func (s *scene) wide(key, what string, cmd ...string) { s.change(key, "a1", what, nil, cmd) }

func (s *scene) swap() {
	a, _ := s.at("a1")
	b, _ := s.at("b1")
	s.wide(s.pairKey(), "swap", "SWAPDB", a, b)
}

func (s *scene) pairKey() string { return model.PairKey + itoa(int64(s.pair)) }

// happenings lists the changes of keys of locks in scenes with waiters, in groups that come equally often.
var happenings = [][]happening{{
	{"del", func(s *scene, _ string) string {
		_, key := s.at("a1")
		s.change("", "a1", "del", []string{"a1"}, []string{[]string{"DEL", "UNLINK"}[s.c.Rand.IntN(2)], key})
		return ""
	}, nil, true},
	{"ends now", func(s *scene, _ string) string { s.lease(0); return "" }, nil, true},
	{"ends soon", func(s *scene, _ string) string { s.lease(400 + s.c.Rand.Int64N(500)); return "" }, nil, true},
	{"ends in a second", func(s *scene, _ string) string { s.lease(1000); return "" }, nil, true},
}, {
	{"lasts", func(s *scene, h string) string { s.lease(60_000 + s.c.Rand.Int64N(2)); return h }, nil, true},
	{"persist", func(s *scene, h string) string {
		_, key := s.at("a1")
		s.change("", "a1", "persist", []string{"a1"}, []string{"PERSIST", key})
		return h
	}, nil, true},
}, {
	{"rename", func(s *scene, _ string) string { s.carry("rename", "a1", "a2"); return "" }, nil, true},
	{"renamenx", func(s *scene, _ string) string { s.carry("renamenx", "a1", "a2"); return "" }, nil, true},
	{"move", func(s *scene, _ string) string { s.carry("move", "a1", "b1"); return "" }, nil, false},
	{"copy", func(s *scene, h string) string {
		s.carry("copy", "a1", []string{"a2", "b2"}[s.c.Rand.IntN(2)])
		return h
	}, nil, true},
	{"rename over", func(s *scene, _ string) string { s.carry("rename", "a2", "a1"); return "over" },
		func(s *scene) { s.take("a2", "over", "") }, true},
}, {
	{"swap", func(s *scene, _ string) string { s.swap(); return "twin" }, nil, true},
	{"swap for the first", func(s *scene, _ string) string { s.swap(); return "" },
		func(s *scene) { s.take("b1", s.first, "") }, false},
}, {
	{"wipe", func(s *scene, _ string) string { s.wide(s.pairKey(), "wipe", "FLUSHDB"); return "" }, nil, true},
	{"flushall", func(s *scene, _ string) string { s.wide(model.AllKey, "flushall", "FLUSHALL"); return "" }, nil, true},
}, {
	{"give", func(s *scene, h string) string { n := s.token(); s.give("a1", h, "a1", n); return n }, nil, true},
	{"give to itself", func(s *scene, h string) string { s.give("a1", h, "a1", h); return h }, nil, true},
	{"change locks", func(s *scene, h string) string { s.give("a1", h, "a2", h); return "" }, nil, true},
}, {
	{"list", func(s *scene, _ string) string { s.list("a1"); return "" }, nil, true},
	{"rename list", func(s *scene, _ string) string { s.carry("rename", "a2", "a1"); return "" },
		func(s *scene) { s.list("a2") }, true},
	{"copy list", func(s *scene, _ string) string { s.carry("copy", "b2", "a1"); return "" },
		func(s *scene) { s.list("b2") }, true},
	{"swap list", func(s *scene, _ string) string { s.swap(); return "" }, func(s *scene) { s.list("b1") }, false},
}}

// play plays a scene.
func (s *scene) play() {
	switch s.c.Rand.IntN(8) {
	case 0:
		s.leases(shared)
		return
	case 1:
		s.leases("hash")
		return
	}
	group := happenings[s.c.Rand.IntN(len(happenings))]
	what := group[s.c.Rand.IntN(len(group))]
	if what.name == "flushall" && (s.c.env.Loaded || s.c.Rand.IntN(2) == 0) {
		return // it wipes what other scenes have
	}
	h, next := s.token(), s.token()
	if s.first = s.token(); !s.take("a1", h, "") {
		return
	}
	if what.before != nil {
		what.before(s)
	}
	if what.twin && s.c.Rand.IntN(2) == 0 {
		s.take("b1", "twin", "")
	}
	w := newSuccession(s.c)
	for place, token := range []string{s.first, next} {
		w.wait(place, func(c *Client) { s.enter(c, token) })
		s.c.Sleep(sceneInLine * time.Millisecond)
	}
	held := what.do(s, h)
	s.c.Sleep(time.Duration(s.c.Rand.IntN(300)) * time.Millisecond)
	for _, place := range []string{"a1", "a2", "b1", "b2"} {
		s.look(place)
	}
	if held != "" {
		s.release(s.c, "a1", held)
	}
	w.all.Wait()
}

// leases gives a lock of two holders, or one of Redisson, another lease, and tries it afterwards.
func (s *scene) leases(mode string) {
	h := s.token()
	if !s.take("a1", h, mode) || mode == shared && !s.take("a1", s.token(), mode) {
		return
	}
	_, key := s.at("a1")
	ms := 300 + s.c.Rand.Int64N(900)
	switch s.c.Rand.IntN(3) {
	case 0:
		s.change("", "a1", "persist", []string{"a1"}, []string{"PERSIST", key})
	case 1:
		ms += 20_001
		fallthrough
	case 2:
		s.lease(ms)
	}
	s.look("a1")
	ms = min(ms, 1500)
	s.c.Sleep(time.Duration(ms/2+s.c.Rand.Int64N(ms)) * time.Millisecond)
	s.take("a1", s.token(), map[string]string{"hash": "hash"}[mode])
	s.look("a1")
	s.change("", "a1", "del", []string{"a1"}, []string{"DEL", key})
}
