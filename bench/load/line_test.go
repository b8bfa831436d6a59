package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// fakeLine is the lock of a fake server, with or without the command LOCK.
type fakeLine struct {
	ctx   context.Context // ends all waits
	held  chan struct{}   // full while the lock is held
	fence atomic.Int64
	sets  atomic.Int64 // that found the lock held
}

func newFakeLine(t *testing.T) *fakeLine {
	return &fakeLine{ctx: t.Context(), held: make(chan struct{}, 1)}
}

func (f *fakeLine) lockd() map[string]func([]string) string {
	return map[string]func([]string) string{"LOCK": f.lock, "UNLOCK": func([]string) string {
		<-f.held
		return ":1\r\n"
	}}
}

func (f *fakeLine) lock(args []string) string {
	if len(args) == 1 {
		return "-ERR wrong number of arguments for 'lock' command\r\n"
	}
	if got := strings.Join(args[3:], " "); got != "PX 60000 WAIT 60000" || args[1] != lockKey(lineLock) {
		return "-ERR " + got + "\r\n"
	}
	select {
	case f.held <- struct{}{}:
		return fmt.Sprintf(":%d\r\n", f.fence.Add(1))
	case <-f.ctx.Done():
		return ""
	}
}

func (f *fakeLine) redis() map[string]func([]string) string {
	return map[string]func([]string) string{"SET": func(args []string) string {
		if args[1] != lockKey(lineLock) {
			return "+OK\r\n"
		}
		select {
		case f.held <- struct{}{}:
			return "+OK\r\n"
		default:
			f.sets.Add(1)
			return "$-1\r\n"
		}
	}, "EVALSHA": func(args []string) string {
		<-f.held
		return ":1\r\n"
	}}
}

// inTime measures, and for longer where a machine that is elsewhere does nothing in that time.
func (c *Config) inTime(measure func() error) (err error) {
	for ; c.Time < time.Minute; c.Time *= 2 {
		if err = measure(); err == nil || !strings.Contains(err.Error(), "no operation was done") {
			break
		}
	}
	return err
}

// The lock passes from client to client, in line if the server knows LOCK and by polling otherwise. The report tells
// which, and the time of a SET.
func TestLine(t *testing.T) {
	lockd, redis := newFakeLine(t), newFakeLine(t)
	c := short(startFake(t, lockd.lockd()).target(), "line", 1)
	c.Target = append(c.Target, "other=redis://"+startFake(t, redis.redis()).ln.Addr().String())
	c.Clients, c.Time, c.Rounds = []int{1, 3}, 100*time.Millisecond, 1
	var r *Report
	if err := c.inTime(func() (err error) { r, err = c.Measure(t.Context(), io.Discard); return err }); err != nil {
		t.Fatal(err)
	}
	if len(r.Results) != 2 {
		t.Fatalf("%+v, want one result for each target: one client hands nothing over", r.Results)
	}
	for i, res := range r.Results {
		s := res.Median
		if res.Clients != 3 || s.Operations == 0 || s.PerSecond <= 0 || s.P50 <= 0 || s.SetP50 <= 0 || res.Polls != (i == 1) {
			t.Errorf("%+v", res)
		}
	}
	if lockd.fence.Load() < int64(r.Results[0].Median.Operations) || len(lockd.held)+len(redis.held) > 0 {
		t.Errorf("%d locks for %d hand-overs; %d are left", lockd.fence.Load(), r.Results[0].Median.Operations, len(lockd.held)+len(redis.held))
	}
	var out strings.Builder
	r.Print(&out)
	for _, want := range []string{
		"clients  target  hand-overs/s  ratio ", "  one SET's p50\n",
		"\nother knows no LOCK, so it is a Redis: its clients poll by SET NX PX without pause, and release by script\n",
	} {
		if strings.Count(out.String(), want) != 1 {
			t.Errorf("not once %q in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "fake knows no LOCK") {
		t.Errorf("a lockd is taken for a Redis:\n%s", out.String())
	}
}

// A hand-over lasts from the release until another client has the lock; errors of the lock are told apart from it.
func TestSharedLock(t *testing.T) {
	began := time.Now()
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	for _, polls := range []bool{false, true} {
		l := newSharedLock(polls)
		for i, turn := range []struct{ id, taken, freed, want int }{{0, 1, 2, 0}, {1, 5, 6, 3}, {1, 7, 10, 0}, {0, 30, 31, 20}} {
			took, err := l.taken(turn.id, int64(i+1), at(turn.taken))
			if want := at(turn.want).Sub(began); err != nil || took != want {
				t.Fatalf("turn %d: %s, %v; want %s", i, took, err, want)
			}
			if _, err := l.taken(7, int64(i+2), at(turn.taken)); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("client 7 was granted the lock that client %d holds", turn.id)) {
				t.Fatalf("turn %d: granted to two: %v", i, err)
			}
			l.freeing(turn.id, at(turn.freed))
		}
		if _, err := l.taken(2, 4, at(40)); (err == nil) != polls || !polls && !strings.Contains(err.Error(), "with fence 4 after fence 4") {
			t.Errorf("polls %t: a fence that is not greater: %v", polls, err)
		}
	}
}

// A wrong answer to one client of the line is noticed. While polling, a held lock is no error.
func TestLineReplies(t *testing.T) {
	probe := func(answer string) func([]string) string {
		return func(args []string) string {
			if len(args) == 1 {
				return "-ERR wrong number of arguments for 'lock' command\r\n"
			}
			return answer
		}
	}
	var tries atomic.Int64
	for _, tt := range []struct {
		name    string
		answers map[string]func([]string) string
		want    string // "": nothing is wrong
	}{
		{"nil", map[string]func([]string) string{"LOCK": probe("$-1\r\n")}, "answered LOCK WAIT with nil"},
		{"full", map[string]func([]string) string{"LOCK": probe("-ERR too many clients wait for this lock\r\n")}, "answered LOCK WAIT with -ERR too many"},
		{"same fence", map[string]func([]string) string{"LOCK": probe(":7\r\n")}, "with fence 7 after fence 7"},
		{"not its holder's", map[string]func([]string) string{"LOCK": probe(":7\r\n"), "UNLOCK": always(":0\r\n")}, "answered the release of its holder's lock with :0"},
		{"replica", map[string]func([]string) string{"LOCK": probe(":7\r\n"), "WAIT": always(":0\r\n")}, "only 0 of 1 replicas"},
		{"polled, not its holder's", map[string]func([]string) string{"EVALSHA": always(":0\r\n")}, "answered the release of its holder's lock with :0"},
		{"polled", map[string]func([]string) string{"SET": func([]string) string {
			if tries.Add(1)%3 > 0 {
				return "$-1\r\n"
			}
			return "+OK\r\n"
		}}, ""},
	} {
		f := startFake(t, tt.answers)
		ctx, d := t.Context(), &redisDriver{target: Target{Addrs: []string{f.ln.Addr().String()}}}
		w, err := findWorkload("line")
		if err != nil {
			t.Fatal(err)
		}
		p := &plan{clients: 2, pipeline: 1, wait: 1}
		if err := d.before(ctx, w, p, d.target.Addrs); err != nil {
			t.Fatal(err)
		}
		c, err := d.open(ctx, w, p, d.target.Addrs, 0)
		if err != nil {
			t.Fatal(err)
		}
		err = errors.Join(c.step(), c.step())
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want one with %q", tt.name, err, tt.want)
		}
		c.finish()
	}
	if tries.Load() != 6 {
		t.Errorf("%d tries for two locks, want 6", tries.Load())
	}
}

// A step of line allocates nothing, in line and polling.
func TestLineAllocatesNothing(t *testing.T) {
	w, err := findWorkload("line")
	if err != nil {
		t.Fatal(err)
	}
	const steps = 100
	var fences []string
	for i := range steps + 1 { // one more to warm up
		fences = append(fences, fmt.Sprintf(":%d\r\n:1\r\n", i+1), ":1\r\n:1\r\n")
	}
	for _, answers := range [][]string{fences, {"$-1\r\n:1\r\n", "+OK\r\n:1\r\n", ":1\r\n:1\r\n"}} {
		c := &redisClient{
			conn: &conn{net: &canned{answers: answers}, in: make([]byte, 4096)}, load: w.redis, token: "token",
			plan: &plan{clients: 2, pipeline: 1, wait: 1, shared: newSharedLock(len(answers) == 3)}, rng: rand.New(rand.NewPCG(1, 2)),
		}
		var err error
		if n := testing.AllocsPerRun(steps, func() { err = errors.Join(err, c.step()) }); n != 0 || err != nil {
			t.Errorf("a step allocates %v times, %v", n, err)
		}
	}
}

// notedClient notes its steps.
type notedClient struct {
	client
	id    int
	steps *[]string
}

func (c notedClient) step() error {
	*c.steps = append(*c.steps, fmt.Sprint("step ", c.id))
	return nil
}
func (c notedClient) interrupt() { *c.steps = append(*c.steps, fmt.Sprint("interrupt ", c.id)) }
func (c notedClient) patience(time.Duration) {
	*c.steps = append(*c.steps, fmt.Sprint("patience ", c.id))
}
func (c notedClient) finish() { *c.steps = append(*c.steps, fmt.Sprint("finish ", c.id)) }

// Clients in turn step one after the other, and are told all together.
func TestInTurn(t *testing.T) {
	var steps []string
	c := &inTurn{clients: []client{notedClient{id: 1, steps: &steps}, notedClient{id: 2, steps: &steps}}}
	for range 3 {
		if err := c.step(); err != nil {
			t.Fatal(err)
		}
	}
	c.interrupt()
	c.patience(time.Second)
	c.finish()
	want := "step 2, step 1, step 2, interrupt 1, interrupt 2, patience 1, patience 2, finish 1, finish 2"
	if got := strings.Join(steps, ", "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// One SET is under way at a time while it is measured beside hand-overs, at each server of the target.
func TestMedianOfSet(t *testing.T) {
	var mu sync.Mutex
	under, most, at := 0, 0, map[int]int{}
	server := func(i int) *fakeRedis {
		return startFake(t, map[string]func([]string) string{"SET": func([]string) string {
			mu.Lock()
			under++
			most = max(most, under)
			at[i]++
			mu.Unlock()
			time.Sleep(100 * time.Microsecond)
			mu.Lock()
			under--
			mu.Unlock()
			return "+OK\r\n"
		}})
	}
	addrs := []string{server(0).ln.Addr().String(), server(1).ln.Addr().String()}
	d := &redisDriver{target: Target{Addrs: addrs}}
	p := &plan{clients: 300, pipeline: 1, keys: 10, valueSize: testValueSize}
	for length := 50 * time.Millisecond; ; length *= 2 {
		mu.Lock()
		clear(at)
		mu.Unlock()
		us, err := medianOfSet(t.Context(), d, p, length)
		if err == nil && us >= 100 {
			break
		}
		if err == nil || !strings.Contains(err.Error(), "no operation was done") || length > time.Minute {
			t.Fatalf("%v µs, %v", us, err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if most != 1 || at[0] == 0 || max(at[0]-at[1], at[1]-at[0]) > 1 || p.clients != 300 {
		t.Errorf("%d SETs at once, %v at each server; %d clients", most, at, p.clients)
	}
}

// handedClient receives a lock in each step, after the given time, or not at all if it is 0.
type handedClient struct {
	client
	run   *run
	took  []time.Duration
	turns int
}

func (c *handedClient) step() error {
	c.turns++
	if c.turns == len(c.took) {
		c.run.phase.Store(phaseStop)
	}
	return nil
}

func (c *handedClient) handOver() time.Duration { return c.took[c.turns-1] }

// In workload line only locks that came from another client count, by the time of the hand-over; in other workloads
// each step counts.
func TestHandOversCount(t *testing.T) {
	const hour = time.Hour // beyond any step, and any histogram
	for _, tt := range []struct {
		shared *sharedLock
		want   int
		long   bool
	}{{newSharedLock(false), 2, true}, {nil, 3, false}} {
		r := newRun()
		r.phase.Store(phaseCount)
		r.work(&handedClient{run: r, took: []time.Duration{hour, 0, hour, hour}}, &r.shards[0], &plan{pipeline: 1, shared: tt.shared})
		s := r.sample(counted{time: time.Second})
		if s.Operations != tt.want || (s.P50 >= float64(time.Minute/time.Microsecond)) != tt.long {
			t.Errorf("%+v, want %d operations, longer than a minute: %t", s, tt.want, tt.long)
		}
	}
}
