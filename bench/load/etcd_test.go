package load

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeEtcd is an etcd of one server, which leads.
type fakeEtcd struct {
	mu     sync.Mutex
	keys   map[string]string
	leases int
	deaf   bool // it confirms puts without storing them
}

func (f *fakeEtcd) Status(context.Context) (string, bool, error) { return "3.4.23", true, nil }

func (f *fakeEtcd) Get(_ context.Context, key string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.keys[key], nil
}

func (f *fakeEtcd) Put(ctx context.Context, key, value string) error {
	return f.PutAll(ctx, [][2]string{{key, value}})
}

func (f *fakeEtcd) PutAll(_ context.Context, pairs [][2]string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range pairs {
		if !f.deaf {
			f.keys[p[0]] = p[1]
		}
	}
	return nil
}

func (f *fakeEtcd) DeletePrefix(_ context.Context, prefix string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key := range f.keys {
		if strings.HasPrefix(key, prefix) {
			delete(f.keys, key)
		}
	}
	return nil
}

func (f *fakeEtcd) Grant(context.Context, time.Duration) (int64, error) {
	f.leases++
	return int64(f.leases), nil
}

func (f *fakeEtcd) Revoke(context.Context, int64) error {
	f.leases--
	return nil
}

func (f *fakeEtcd) Acquire(ctx context.Context, key, value string, _ int64) (bool, error) {
	if held, _ := f.Get(ctx, key); held != "" {
		return false, nil
	}
	return true, f.Put(ctx, key, value)
}

func (f *fakeEtcd) Release(ctx context.Context, key, value string) (bool, error) {
	if held, _ := f.Get(ctx, key); held != value {
		return false, nil
	}
	return true, f.DeletePrefix(ctx, key)
}

func (f *fakeEtcd) Close() error { return nil }

// steps has one client of an etcd go through a workload, and returns its first error.
func (f *fakeEtcd) steps(t *testing.T, w *workload) error {
	t.Helper()
	ctx, p := t.Context(), &plan{clients: 1, pipeline: 1, keys: 250, valueSize: testValueSize}
	d := (&Config{}).newDriver(Target{Scheme: schemeEtcd, Addrs: []string{"a:1"}, Master: true})
	d.(*etcdDriver).dial = func(string) (etcdConn, error) { return f, nil }
	defer d.close()
	addrs, err := d.addrs(ctx)
	if err == nil {
		err = d.fill(ctx, p, func(int) {})
	}
	if err == nil {
		err = d.before(ctx, w, p, addrs)
	}
	if err != nil {
		t.Fatal(err)
	}
	c, err := d.open(ctx, w, p, addrs, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		if err := c.step(); err != nil {
			return err
		}
	}
	c.finish()
	return d.clear(ctx, p)
}

// Every workload for etcd runs, and leaves nothing behind; a wrong answer of an etcd is noticed.
func TestEtcdWorkloads(t *testing.T) {
	ran := 0
	for i := range workloads {
		w := &workloads[i]
		if w.etcd == nil {
			continue
		}
		ran++
		f := &fakeEtcd{keys: map[string]string{}}
		if err := f.steps(t, w); err != nil || len(f.keys) != 0 || f.leases != 0 {
			t.Errorf("%s: %v; %d keys and %d leases are left", w.name, err, len(f.keys), f.leases)
		}
		f.deaf = true
		if err := f.steps(t, w); w.name != "set" && err == nil {
			t.Errorf("%s: it is not noticed that nothing was put", w.name)
		}
	}
	if ran == 0 {
		t.Error("no workload is for etcd")
	}
}
