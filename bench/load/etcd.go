package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"lockd/bench/etcd"
)

// etcdConn is a connection to one server of an etcd, which many clients use at the same time: that of package etcd,
// except in tests.
type etcdConn interface {
	Status(ctx context.Context) (version string, leads bool, err error)
	Get(ctx context.Context, key string) (string, error)
	Put(ctx context.Context, key, value string) error
	PutAll(ctx context.Context, pairs [][2]string) error
	DeletePrefix(ctx context.Context, prefix string) error
	Grant(ctx context.Context, length time.Duration) (lease int64, err error)
	Revoke(ctx context.Context, lease int64) error
	Acquire(ctx context.Context, key, value string, lease int64) (bool, error)
	Release(ctx context.Context, key, value string) (bool, error)
	Close() error
}

// etcdDriver measures etcd through its own Go client.
type etcdDriver struct {
	target Target
	dial   func(addr string) (etcdConn, error)
	conns  map[string][]etcdConn // by address
}

func dialEtcd(addr string) (etcdConn, error) { return etcd.Dial(addr) }

// etcdConnClients is the number of clients that share a connection, like the calls of a program.
const etcdConnClients = 25

func (d *etcdDriver) supports(w *workload, p *plan) bool { return w.etcd != nil && p.pipeline == 1 }

// conn returns the connection of client id to addr.
func (d *etcdDriver) conn(addr string, id int) (etcdConn, error) {
	nth := id / etcdConnClients
	for len(d.conns[addr]) <= nth {
		c, err := d.dial(addr)
		if err != nil {
			return nil, fmt.Errorf("cannot connect to %s: %w", addr, err)
		}
		if d.conns == nil {
			d.conns = map[string][]etcdConn{}
		}
		d.conns[addr] = append(d.conns[addr], c)
	}
	return d.conns[addr][nth], nil
}

func (d *etcdDriver) close() {
	for _, conns := range d.conns {
		for _, c := range conns {
			_ = c.Close() // nothing waits for it any more
		}
	}
	d.conns = nil
}

func (d *etcdDriver) status(ctx context.Context, addr string) (version string, leads bool, err error) {
	c, err := d.conn(addr, 0)
	if err != nil {
		return "", false, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialMax)
	defer cancel()
	version, leads, err = c.Status(ctx)
	if err != nil {
		err = fmt.Errorf("%s does not tell its status: %w", addr, err)
	}
	return version, leads, err
}

func (d *etcdDriver) addrs(ctx context.Context) ([]string, error) {
	if !d.target.Master {
		return d.target.Addrs, nil
	}
	for _, addr := range d.target.Addrs {
		_, leads, err := d.status(ctx, addr)
		if err != nil {
			return nil, err
		}
		if leads {
			return []string{addr}, nil
		}
	}
	return nil, fmt.Errorf("none of %s leads", strings.Join(d.target.Addrs, ", "))
}

// describe asks each server for its version. It does not ask how the server syncs: an etcd always syncs before it
// answers, unless it was started with --unsafe-no-fsync.
func (d *etcdDriver) describe(ctx context.Context) ([]string, error) {
	var all []string
	for _, addr := range d.target.Addrs {
		version, leads, err := d.status(ctx, addr)
		if err != nil {
			return nil, err
		}
		role := "follower"
		if leads {
			role = "leader"
		}
		all = append(all, fmt.Sprintf("%s etcd %s, %s, syncs always (its default)", addr, version, role))
	}
	return all, nil
}

// etcdBatch is below the number of operations that etcd takes in a transaction.
const etcdBatch = 100

func (d *etcdDriver) fill(ctx context.Context, p *plan, done func(keys int)) error {
	addrs, err := d.addrs(ctx)
	if err != nil {
		return err
	}
	return inBatches(ctx, p.keys, etcdBatch, func(ctx context.Context) (func(from, to int) error, func(), error) {
		c, err := d.conn(addrs[0], 0)
		work := func(from, to int) error {
			var pairs [][2]string
			for i := from; i < to; i++ {
				pairs = append(pairs, [2]string{dataKey(i), string(appendValue(nil, i, p.valueSize))})
			}
			ctx, cancel := context.WithTimeout(ctx, answerMax)
			defer cancel()
			if err := c.PutAll(ctx, pairs); err != nil {
				return fmt.Errorf("%s answered a transaction of puts with %w", addrs[0], err)
			}
			done(to - from)
			return nil
		}
		return work, func() {}, err
	})
}

func (d *etcdDriver) clear(ctx context.Context, _ *plan) error {
	addrs, err := d.addrs(ctx)
	if err != nil {
		return err
	}
	c, err := d.conn(addrs[0], 0)
	if err != nil {
		return err
	}
	return c.DeletePrefix(ctx, keyPrefix)
}

func (d *etcdDriver) before(_ context.Context, _ *workload, p *plan, addrs []string) error {
	for id := range p.clients { // the map is filled by one goroutine
		if _, err := d.conn(addrs[id%len(addrs)], id/len(addrs)); err != nil {
			return err
		}
	}
	return nil
}

func (d *etcdDriver) after(context.Context, *workload, *plan, []string, int) error { return nil }

// etcdClient is one client of etcd.
type etcdClient struct {
	*plan
	kv     etcdConn
	addr   string
	id     int
	token  string
	turn   int
	rng    *rand.Rand
	lease  int64
	load   *etcdLoad
	ctx    context.Context
	cancel context.CancelFunc
}

// etcdLease is longer than a measurement.
const etcdLease = time.Hour

func (d *etcdDriver) open(ctx context.Context, w *workload, p *plan, addrs []string, id int) (client, error) {
	addr := addrs[id%len(addrs)]
	kv, err := d.conn(addr, id/len(addrs))
	if err != nil {
		return nil, err
	}
	c := &etcdClient{
		plan:  p,
		kv:    kv,
		addr:  addr,
		id:    id,
		load:  w.etcd,
		token: fmt.Sprintf("bench-%08d-%020d", id, rand.Uint64()),
		rng:   rand.New(rand.NewPCG(rand.Uint64(), uint64(id))),
	}
	c.ctx, c.cancel = context.WithCancel(ctx)
	if w.etcd.lease {
		if c.lease, err = kv.Grant(c.ctx, etcdLease); err != nil {
			c.cancel()
			return nil, fmt.Errorf("%s grants no lease: %w", addr, err)
		}
	}
	return c, nil
}

func (c *etcdClient) step() error { return c.load.step(c) }

func (c *etcdClient) handOver() time.Duration { return 0 }

func (c *etcdClient) interrupt() { c.cancel() }

func (c *etcdClient) patience(d time.Duration) { time.AfterFunc(d, c.cancel) }

func (c *etcdClient) finish() {
	if c.lease != 0 {
		ctx, cancel := context.WithTimeout(context.Background(), dialMax)
		_ = c.kv.Revoke(ctx, c.lease) // else it ends by itself
		cancel()
	}
	c.cancel()
}

func dataKey(i int) string { return string(appendDigits([]byte(dataPrefix), i)) }

func lockKey(i int) string { return string(appendDigits([]byte(lockPrefix), i)) }

func etcdSet(c *etcdClient) error { return c.put(c.rng.IntN(c.keys)) }

func (c *etcdClient) put(key int) error {
	if err := c.kv.Put(c.ctx, dataKey(key), string(appendValue(nil, key, c.valueSize))); err != nil {
		return fmt.Errorf("%s answered a put with %w", c.addr, err)
	}
	return nil
}

func etcdGet(c *etcdClient) error { return c.get(c.rng.IntN(c.keys)) }

func (c *etcdClient) get(key int) error {
	got, err := c.kv.Get(c.ctx, dataKey(key))
	if err != nil {
		return fmt.Errorf("%s answered a get with %w", c.addr, err)
	}
	want := string(appendValue(nil, key, c.valueSize))
	if got != want {
		return fmt.Errorf("%s answered the get of a key whose value is %s with %q", c.addr, want, got)
	}
	return nil
}

// acquire takes a lock if it is free.
func (c *etcdClient) acquire(key string) (bool, error) {
	got, err := c.kv.Acquire(c.ctx, key, c.token, c.lease)
	if err != nil {
		return false, fmt.Errorf("%s answered the transaction that locks with %w", c.addr, err)
	}
	return got, nil
}

// release frees a lock, which must be ours.
func (c *etcdClient) release(key string) error {
	released, err := c.kv.Release(c.ctx, key, c.token)
	if err != nil {
		return fmt.Errorf("%s answered the transaction that unlocks with %w", c.addr, err)
	}
	if !released {
		return fmt.Errorf("%s says that a lock is not its holder's", c.addr)
	}
	return nil
}

func etcdLock(c *etcdClient) error {
	key := lockKey(c.lockOf(c.id, c.turn))
	c.turn++
	got, err := c.acquire(key)
	if err == nil && !got {
		err = fmt.Errorf("%s says that a free lock is held", c.addr)
	}
	if err != nil {
		return err
	}
	return c.release(key)
}

func etcdContend(c *etcdClient) error {
	key := lockKey(contendedLock)
	got, err := c.acquire(key)
	if err != nil || !got {
		return err
	}
	return c.release(key)
}

func etcdMixed(c *etcdClient) error {
	switch die := c.rng.IntN(100); {
	case die < mixGetShare:
		return etcdGet(c)
	case die < mixGetShare+mixSetShare:
		return etcdSet(c)
	}
	return etcdLock(c)
}
