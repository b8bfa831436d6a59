package load

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// redisClient is one client of a target that speaks Redis's protocol.
type redisClient struct {
	*conn
	*plan
	id    int
	token string // its name as the holder of locks
	turn  int    // counts the locks it took
	rng   *rand.Rand
	wrote bool  // the exchange under way holds a write
	picks []int // keys, or kinds of operations, of the step under way
	value []byte
	left  int64 // of the stock, as last seen

	login      *Login
	subscriber *conn
	sent       int // messages so far
	load       *redisLoad
	handed     time.Duration // see handOver of client
}

func (c *redisClient) step() error { return c.load.step(c) }

func (c *redisClient) handOver() time.Duration { return c.handed }

func (c *redisClient) interrupt() {
	c.cut()
	if c.subscriber != nil {
		c.subscriber.cut()
	}
}

func (c *redisClient) patience(d time.Duration) {
	c.limit(d)
	if c.subscriber != nil {
		c.subscriber.limit(d)
	}
}

func (c *redisClient) finish() {
	c.close()
	if c.subscriber != nil {
		c.subscriber.close()
	}
}

// waitTimeoutMs bounds a WAIT.
const waitTimeoutMs = 10_000

// exchange sends the appended commands. If they write and the target is to wait, one WAIT follows: it covers all
// writes before it.
func (c *redisClient) exchange(writes bool) error {
	c.wrote = writes && c.wait > 0
	if c.wrote {
		c.command("WAIT", 3)
		c.argInt(c.wait)
		c.argInt(waitTimeoutMs)
	}
	return c.send()
}

// waited reads the reply to the exchange's WAIT, after all others.
func (c *redisClient) waited() error {
	if !c.wrote {
		return nil
	}
	r, err := c.expect("WAIT", ':')
	if err == nil && r.n < int64(c.wait) {
		err = fmt.Errorf("%s: only %d of %d replicas acknowledged a write within %d ms",
			c.addr, r.n, c.wait, waitTimeoutMs)
	}
	return err
}

// script is a Lua script, sent by its digest.
type script struct{ source, sha string }

func newScript(source string) *script {
	sum := sha1.Sum([]byte(source))
	return &script{source, hex.EncodeToString(sum[:])}
}

// evalsha begins the command for a script with that many keys and other arguments.
func (c *redisClient) evalsha(s *script, keys, args int) {
	c.command("EVALSHA", 3+keys+args)
	c.arg(s.sha)
	c.argInt(keys)
}

// redisDriver measures a target that speaks Redis's protocol.
type redisDriver struct {
	target Target
	login  Login
}

// addrs returns the addresses for clients; only the leader's, if the target asks for that.
func (d *redisDriver) addrs(ctx context.Context) ([]string, error) {
	if !d.target.Master {
		return d.target.Addrs, nil
	}
	var masters []string
	for _, addr := range d.target.Addrs {
		role, err := d.ask(ctx, addr, "ROLE")
		if err != nil {
			return nil, err
		}
		if len(role) > 0 && role[0] == "master" {
			masters = append(masters, addr)
		}
	}
	if len(masters) != 1 {
		return nil, fmt.Errorf("of %s there is not one that answers ROLE with master but %d",
			strings.Join(d.target.Addrs, ", "), len(masters))
	}
	return masters, nil
}

// Ask sends one command on a separate connection. It returns a string, or the flattened elements of an array; an
// error reply is an error.
func Ask(ctx context.Context, addr string, args ...string) ([]string, error) {
	return (&redisDriver{}).ask(ctx, addr, args...)
}

func (d *redisDriver) ask(ctx context.Context, addr string, args ...string) ([]string, error) {
	c, err := d.login.dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	defer c.close()
	return c.ask(args...)
}

// describe asks each server what it is and how it syncs.
func (d *redisDriver) describe(ctx context.Context) ([]string, error) {
	var all []string
	for _, addr := range d.target.Addrs {
		c, err := d.login.dial(ctx, addr)
		if err != nil {
			return nil, err
		}
		text, err := describeRedis(c)
		c.close()
		if err != nil {
			return nil, err
		}
		all = append(all, addr+" "+text)
	}
	return all, nil
}

func describeRedis(c *conn) (string, error) {
	fields, err := c.info()
	if err != nil {
		return "", err
	}
	if fields["loading"] == "1" {
		return "", fmt.Errorf("%s is still loading its data", c.addr)
	}
	text := "redis " + fields["redis_version"]
	for product, field := range map[string]string{"lockd": "lockd_release", "valkey": "valkey_version"} {
		if v := fields[field]; v != "" {
			text = product + " " + v
		}
	}
	if role := fields["role"]; role != "" {
		text += ", " + role
		if role == "master" {
			text += " of " + fields["connected_slaves"]
		}
	}
	for _, name := range []string{"appendonly", "appendfsync"} {
		pair, err := c.ask("CONFIG", "GET", name)
		if err != nil {
			return "", err
		}
		value := "unknown"
		if len(pair) == 2 {
			value = pair[1]
		}
		text += ", " + name + " " + value
	}
	return text, nil
}

// Info asks a server for fields of INFO; without sections, for the default ones.
func Info(ctx context.Context, addr string, sections ...string) (map[string]string, error) {
	c, err := (&Login{}).dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	defer c.close()
	return c.info(sections...)
}

func (c *conn) info(sections ...string) (map[string]string, error) {
	text, err := c.ask(append([]string{"INFO"}, sections...)...)
	if err != nil {
		return nil, err
	}
	fields := map[string]string{}
	for line := range strings.Lines(strings.Join(text, "\n")) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields, nil
}

// Filling and clearing go in batches over few connections.
const fillBatch = 500

// fill gives all keys their values.
func (d *redisDriver) fill(ctx context.Context, p *plan, done func(keys int)) error {
	return d.batches(ctx, p, done, func(c *conn, i int) {
		c.command("SET", 3)
		c.argKey(dataPrefix, i)
		c.argValue(i, p.valueSize)
	}, func(c *conn) error { return c.expectOK("SET") })
}

// clear takes away what fill wrote.
func (d *redisDriver) clear(ctx context.Context, p *plan) error {
	return d.batches(ctx, p, func(int) {}, func(c *conn, i int) {
		c.command("DEL", 2)
		c.argKey(dataPrefix, i)
	}, func(c *conn) error {
		_, err := c.expect("DEL", ':')
		return err
	})
}

func (d *redisDriver) batches(
	ctx context.Context,
	p *plan,
	done func(int),
	add func(*conn, int),
	check func(*conn) error,
) error {
	addrs, err := d.addrs(ctx)
	if err != nil {
		return err
	}
	return inBatches(ctx, p.keys, fillBatch, func(ctx context.Context) (func(from, to int) error, func(), error) {
		c, err := d.login.dial(ctx, addrs[0])
		if err != nil {
			return nil, nil, err
		}
		work := func(from, to int) error {
			for i := from; i < to; i++ {
				add(c, i)
			}
			if err := c.send(); err != nil {
				return err
			}
			for range to - from {
				if err := check(c); err != nil {
					return err
				}
			}
			done(to - from)
			return nil
		}
		return work, c.close, nil
	})
}

// open connects client id and makes it ready.
func (d *redisDriver) open(ctx context.Context, w *workload, p *plan, addrs []string, id int) (client, error) {
	c, err := d.login.dial(ctx, addrs[id%len(addrs)])
	if err != nil {
		return nil, err
	}
	r := &redisClient{
		conn: c, plan: p, id: id, load: w.redis, login: &d.login,
		token: fmt.Sprintf("bench-%08d-%020d", id, rand.Uint64()),
		rng:   rand.New(rand.NewPCG(rand.Uint64(), uint64(id))),
		picks: make([]int, p.pipeline),
	}
	if w.redis.subscribes {
		err = r.subscribe(ctx, addrs[(id+1)%len(addrs)])
	}
	if err != nil {
		r.finish()
		return nil, err
	}
	return r, nil
}

// subscribe connects the client that receives what this one publishes, to another
// node where there are several.
func (c *redisClient) subscribe(ctx context.Context, addr string) error {
	s, err := c.login.dial(ctx, addr)
	if err != nil {
		return err
	}
	c.subscriber = s
	_, err = s.ask("SUBSCRIBE", c.channel())
	return err
}

func (c *redisClient) channel() string { return string(appendDigits([]byte(channelName), c.id)) }

// before makes the target ready for a measurement.
func (d *redisDriver) before(ctx context.Context, w *workload, p *plan, addrs []string) error {
	for _, addr := range addrs {
		c, err := d.login.dial(ctx, addr)
		if err != nil {
			return err
		}
		err = loadScripts(c, w.redis.scripts)
		c.close()
		if err != nil {
			return err
		}
	}
	return d.once(ctx, addrs[0], w.redis.before, p)
}

func loadScripts(c *conn, scripts []*script) error {
	for _, s := range scripts {
		got, err := c.ask("SCRIPT", "LOAD", s.source)
		if err != nil {
			return err
		}
		if len(got) != 1 || got[0] != s.sha {
			return fmt.Errorf("%s answered SCRIPT LOAD with %q and not with the digest %s", c.addr, got, s.sha)
		}
	}
	return nil
}

// after checks the state after a measurement; steps is the number of steps of all clients.
func (d *redisDriver) after(ctx context.Context, w *workload, p *plan, addrs []string, steps int) error {
	if w.redis.after == nil {
		return nil
	}
	return d.once(ctx, addrs[0], func(c *conn, p *plan) error { return w.redis.after(c, p, steps*p.pipeline) }, p)
}

func (d *redisDriver) once(ctx context.Context, addr string, f func(*conn, *plan) error, p *plan) error {
	if f == nil {
		return nil
	}
	c, err := d.login.dial(ctx, addr)
	if err != nil {
		return err
	}
	defer c.close()
	return f(c, p)
}

func (d *redisDriver) supports(w *workload, p *plan) bool {
	return w.redis != nil && (!w.hands || p.clients >= handsLeast)
}

func (d *redisDriver) close() {}
