package load

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockd/internal/fakenode"
	"lockd/internal/freeport"
)

// fakeRedis answers as a Redis would that one client at a time uses, unless a test
// has it answer a command in another way. silence: no answer at all.
type fakeRedis struct {
	ln      net.Listener
	answers map[string]func(args []string) string // by name; "" hangs up
	subs    sync.Map                              // channel -> net.Conn
	stock   atomic.Int64
	serving sync.WaitGroup
}

const silence = "silence"

func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

func startFake(t *testing.T, answers map[string]func([]string) string) *fakeRedis {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeRedis{ln: ln, answers: answers}
	f.serving.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			f.serving.Go(func() { f.serve(c) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		f.serving.Wait() // the connections end with those of the measurement
	})
	return f
}

func (f *fakeRedis) target() string { return "fake=redis://" + f.ln.Addr().String() }

func (f *fakeRedis) serve(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		args, err := fakenode.Read(in)
		if err != nil {
			return
		}
		answer := f.answer(c, args)
		if answer == "" {
			return
		}
		if answer != silence {
			io.WriteString(c, answer)
		}
	}
}

func (f *fakeRedis) answer(c net.Conn, args []string) string {
	if wrong := f.answers[args[0]]; wrong != nil {
		return wrong(args)
	}
	switch args[0] {
	case "INFO":
		return bulk("redis_version:7.0.15\r\nrole:master\r\nconnected_slaves:0\r\n")
	case "CONFIG":
		return "*2\r\n" + bulk(args[2]) + bulk("always")
	case "ROLE":
		return "*3\r\n" + bulk("master") + ":0\r\n*0\r\n"
	case "SET":
		if args[1] == stockKey {
			n, _ := strconv.ParseInt(args[2], 10, 64)
			f.stock.Store(n)
		}
		return "+OK\r\n"
	case "GET":
		if args[1] == stockKey {
			return bulk(strconv.FormatInt(f.stock.Load(), 10))
		}
		i, _ := strconv.Atoi(strings.TrimPrefix(args[1], dataPrefix))
		return bulk(string(appendValue(nil, i, testValueSize)))
	case "SCRIPT":
		sum := sha1.Sum([]byte(args[2]))
		return bulk(hex.EncodeToString(sum[:]))
	case "EVALSHA":
		return f.eval(args[1])
	case "LOCK":
		return "-ERR unknown command 'LOCK', with args beginning with: \r\n"
	case "SUBSCRIBE":
		f.subs.Store(args[1], c)
		return "*3\r\n" + bulk("subscribe") + bulk(args[1]) + ":1\r\n"
	case "PUBLISH":
		s, ok := f.subs.Load(args[1])
		if !ok {
			return ":0\r\n"
		}
		io.WriteString(s.(net.Conn), "*3\r\n"+bulk("message")+bulk(args[1])+bulk(args[2]))
		return ":1\r\n"
	}
	return ":1\r\n" // DEL, WAIT
}

func (f *fakeRedis) eval(sha string) string {
	switch sha {
	case redissonLock.sha:
		return "$-1\r\n"
	case stockScript.sha:
		return fmt.Sprintf(":%d\r\n", f.stock.Add(-1))
	}
	return ":1\r\n"
}

const testValueSize = 30

// short measures one workload for a moment.
func short(target, workload string, pipeline int) *Config {
	return &Config{
		Target: []string{target}, Workload: []string{workload}, Clients: []int{3}, Pipeline: pipeline,
		Time: 20 * time.Millisecond, Rounds: 2, Keys: 10, ValueSize: testValueSize, Wait: 1,
	}
}

// Every workload runs, with and without a pipeline, and leaves the state that its operations produce.
func TestWorkloads(t *testing.T) {
	f := startFake(t, nil)
	ctx, d := context.Background(), &redisDriver{target: Target{Addrs: []string{f.ln.Addr().String()}}}
	for _, w := range workloads {
		for _, pipeline := range []int{1, 5} {
			if w.name == "contend" && pipeline > 1 {
				continue // the fake grants every lock
			}
			p := &plan{clients: 1, pipeline: pipeline, keys: 10, valueSize: testValueSize, wait: 1}
			if err := d.before(ctx, &w, p, d.target.Addrs); err != nil {
				t.Fatal(err)
			}
			c, err := d.open(ctx, &w, p, d.target.Addrs, 0)
			if err != nil {
				t.Fatal(err)
			}
			const steps = 30
			for range steps {
				if err := c.step(); err != nil {
					t.Errorf("%s, pipeline %d: %v", w.name, pipeline, err)
				}
			}
			if err := d.after(ctx, &w, p, d.target.Addrs, steps); err != nil {
				t.Errorf("%s, pipeline %d: %v", w.name, pipeline, err)
			}
			if w.redis.after != nil && d.after(ctx, &w, p, d.target.Addrs, steps-1) == nil {
				t.Errorf("%s: a step less leaves the same", w.name)
			}
			c.finish()
		}
	}
}

// A measurement counts operations in every round, and describes the server.
func TestMeasure(t *testing.T) {
	c := short(startFake(t, nil).target(), "set", 4)
	c.Time, c.JSON = 500*time.Millisecond, filepath.Join(t.TempDir(), "figures.json")
	if err := c.inTime(func() error { return c.Run(context.Background(), io.Discard, io.Discard) }); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(c.JSON)
	if err != nil {
		t.Fatal(err)
	}
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Results) != 1 || len(r.Results[0].Rounds) != 2 {
		t.Fatalf("%+v, want one result of two rounds", r.Results)
	}
	for _, s := range r.Results[0].Rounds {
		if s.Operations%4 != 0 || s.PerSecond <= 0 || s.P50 <= 0 || s.P50 > s.Max || s.Seconds < 0.5 {
			t.Errorf("%+v", s)
		}
	}
	if got := r.Targets[0].Servers[0]; !strings.HasSuffix(got, " redis 7.0.15, master of 0, appendonly always, appendfsync always") {
		t.Errorf("the server is described as %q", got)
	}
}

// always answers a command in one way.
func always(answer string) func([]string) string { return func([]string) string { return answer } }

// onlyLocks answers SETs that take locks in another way than those of values.
func onlyLocks(answer string) func([]string) string {
	return func(args []string) string {
		if strings.HasPrefix(args[1], lockPrefix) {
			return answer
		}
		return "+OK\r\n"
	}
}

// A wrong reply to any command ends the measurement with an error that names the command.
func TestWrongReplies(t *testing.T) {
	other := bulk(string(appendValue(nil, 77, testValueSize)))
	for _, tt := range []struct {
		workload, command string
		answer            func([]string) string
		want              string
	}{
		{"set", "SET", always("-LOADING Redis is loading the dataset in memory\r\n"), "answered SET with -LOADING Redis is loading"},
		{"set", "SET", always("+QUEUED\r\n"), "answered SET with +QUEUED"},
		{"set", "SET", always("hello\r\n"), `"hello" is no reply`},
		{"set", "SET", always("\r\n"), "an empty line is no reply"},
		{"set", "SET", always(":x\r\n"), `":x" is no reply`},
		{"set", "SET", always(""), "closed the connection"},
		{"set", "WAIT", always(":0\r\n"), "only 0 of 1 replicas"},
		{"get", "GET", always("$-1\r\n"), "with nil"},
		{"get", "GET", always(other), "answered GET of a key whose value is 0000000000"},
		{"get", "GET", always("$2\r\nabcd\r\n"), "a bulk string without an end of line"},
		{"lock", "SET", always("$-1\r\n"), "answered SET NX PX on a free lock with nil"},
		{"lock", "EVALSHA", always(":0\r\n"), "answered the release of its holder's lock with :0"},
		{"lock", "EVALSHA", always("-NOSCRIPT No matching script. Please use EVAL.\r\n"), "with -NOSCRIPT"},
		{"lock", "SCRIPT", always(bulk("0123")), "and not with the digest"},
		{"lock", "WAIT", always(":0\r\n"), "only 0 of 1 replicas"},
		{"reentrant", "EVALSHA", always(":29999\r\n"), "answered lock() of a free lock with :29999"},
		{"contend", "SET", onlyLocks("+QUEUED\r\n"), "answered SET NX PX with +QUEUED"},
		{"contend", "EVALSHA", always(":0\r\n"), "answered the release of its holder's lock with :0"},
		{"line", "LOCK", always(":1\r\n"), "answered LOCK without arguments with :1"},
		{"line", "LOCK", always(""), "closed the connection"},
		{"line", "DEL", always("-ERR no\r\n"), "answered DEL with -ERR no"},
		{"line", "SET", onlyLocks("+QUEUED\r\n"), "answered SET NX PX with +QUEUED"},
		{"stock", "EVALSHA", always(":-1\r\n"), "with :-1"},
		{"stock", "EVALSHA", always(":100\r\n"), "of which 100 were left, with :100"},
		{"stock", "GET", always(bulk("5")), "has 5 pieces left after"},
		{"pubsub", "PUBLISH", always("-ERR no\r\n"), "answered PUBLISH with -ERR no"},
		{"mixed", "GET", always(other), "answered GET of a key whose value is"},
		{"mixed", "SET", onlyLocks("$-1\r\n"), "answered SET with nil"},
		{"set", "INFO", always(bulk("loading:1\r\n")), "is still loading its data"},
		{"set", "INFO", always("-NOAUTH Authentication required.\r\n"), "answered INFO with -NOAUTH"},
	} {
		f := startFake(t, map[string]func([]string) string{tt.command: tt.answer})
		c := short(f.target(), tt.workload, 1)
		c.Time = time.Second // the error ends the measurement earlier, except for errors in the final state
		err := c.inTime(func() error { _, err := c.Measure(context.Background(), io.Discard); return err })
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "fake") {
			t.Errorf("%s, %s: error %v, want one with %q", tt.workload, tt.command, err, tt.want)
		}
	}
}

// A message that is not the next one is noticed.
func TestWrongMessage(t *testing.T) {
	f := startFake(t, nil)
	f.answers = map[string]func([]string) string{"PUBLISH": func(args []string) string {
		s, _ := f.subs.Load(args[1])
		io.WriteString(s.(net.Conn), "*3\r\n"+bulk("message")+bulk(args[1])+bulk("000000000007"))
		return ":1\r\n"
	}}
	_, err := short(f.target(), "pubsub", 1).Measure(context.Background(), io.Discard)
	if err == nil || !strings.Contains(err.Error(), `answered SUBSCRIBE, instead of message 0, with "000000000007"`) {
		t.Errorf("error %v", err)
	}
}

// A lock that is granted twice in one pipeline is noticed.
func TestGrantedTwice(t *testing.T) {
	f := startFake(t, nil)
	_, err := short(f.target(), "contend", 2).Measure(context.Background(), io.Discard)
	if err == nil || !strings.Contains(err.Error(), "granted the same lock 2 times") {
		t.Errorf("error %v", err)
	}
}

// One question needs no measurement: lists come flat, and an error reply is an error.
func TestAsk(t *testing.T) {
	refuses := func([]string) string { return "-ERR no\r\n" }
	addr := startFake(t, map[string]func([]string) string{"REFUSED": refuses}).ln.Addr().String()
	if got, err := Ask(t.Context(), addr, "ROLE"); err != nil || len(got) == 0 || got[0] != "master" {
		t.Errorf("ROLE: %q, %v", got, err)
	}
	if got, err := Ask(t.Context(), addr, "REFUSED"); err == nil || !strings.Contains(err.Error(), "ERR no") {
		t.Errorf("an error reply: %q, %v", got, err)
	}
}

// A target that does not answer, or has no leader, is reported.
func TestNoTarget(t *testing.T) {
	addrs, err := freeport.Addrs("127.0.0.1", 1)
	if err != nil {
		t.Fatal(err)
	}
	addr := addrs[0]
	if _, err := short("redis://"+addr, "set", 1).Measure(context.Background(), io.Discard); err == nil || !strings.Contains(err.Error(), "cannot connect to "+addr+": ") {
		t.Errorf("error %v", err)
	}
	f := startFake(t, map[string]func([]string) string{"ROLE": always("*1\r\n" + bulk("slave"))})
	if _, err := short(f.target()+"?to=master", "set", 1).Measure(context.Background(), io.Discard); err == nil || !strings.Contains(err.Error(), "there is not one that answers ROLE with master but 0") {
		t.Errorf("error %v", err)
	}
}

// An interrupted measurement ends at once, even if the server is silent, and returns the complete results.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	f := startFake(t, map[string]func([]string) string{"EVALSHA": func([]string) string {
		cancel()
		return silence
	}})
	c := short(f.target(), "set", 1)
	c.Workload, c.Time, c.Rounds = []string{"set", "lock"}, time.Second, 1
	began := time.Now()
	var out bytes.Buffer
	err := c.Run(ctx, &out, io.Discard)
	if !errors.Is(err, errInterrupted) || time.Since(began) > answerMax/2 {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
	if !strings.Contains(out.String(), "set: overwrite") || strings.Contains(out.String(), "lock: take") {
		t.Errorf("printed:\n%s", out.String())
	}
}

// A server that is silent until the time is over is waited for, unless told to stop.
func TestInterruptAtTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	f := startFake(t, map[string]func([]string) string{"SET": func(args []string) string {
		if args[1] != lockKey(contendedLock) {
			return "+OK\r\n"
		}
		return silence
	}})
	c := short(f.target(), "contend", 1)
	c.Time, c.Wait = time.Millisecond, 0 // its WAIT would be answered
	time.AfterFunc(100*time.Millisecond, cancel)
	began := time.Now()
	if _, err := c.Measure(ctx, io.Discard); !errors.Is(err, errInterrupted) || time.Since(began) > answerMax/2 {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
}

// No two clients take the same lock, however many they are.
func TestLocksAreApart(t *testing.T) {
	for _, p := range []plan{{clients: 3, pipeline: 4, keys: 10}, {clients: 7, pipeline: 1, keys: 1000}} {
		owner := map[int]int{}
		for id := range p.clients {
			for turn := range 500 {
				lock := p.lockOf(id, turn)
				if other, taken := owner[lock]; taken && other != id {
					t.Fatalf("clients %d and %d of %+v take lock %d", other, id, p, lock)
				}
				owner[lock] = id
			}
			step := map[int]bool{}
			for i := range p.pipeline {
				step[p.lockOf(id, 17+i)] = true
			}
			if len(step) != p.pipeline {
				t.Errorf("one step of %+v takes %d different locks", p, len(step))
			}
		}
	}
}

// canned is a connection that answers each write with the next of its answers, and
// allocates nothing.
type canned struct {
	net.Conn
	answers []string
	next    int
	left    string
}

func (c *canned) Write(b []byte) (int, error) {
	c.left = c.answers[c.next%len(c.answers)]
	c.next++
	return len(b), nil
}

func (c *canned) Read(b []byte) (int, error) {
	n := copy(b, c.left)
	c.left = c.left[n:]
	return n, nil
}

// An operation in Redis's protocol allocates nothing.
func TestNoAllocations(t *testing.T) {
	value := bulk(string(appendValue(nil, 0, testValueSize)))
	for workload, answers := range map[string][]string{
		"set":       {"+OK\r\n+OK\r\n:1\r\n"},
		"get":       {value + value},
		"lock":      {"+OK\r\n+OK\r\n:1\r\n", ":1\r\n:1\r\n:1\r\n"},
		"reentrant": {"$-1\r\n$-1\r\n:1\r\n", ":1\r\n:1\r\n:1\r\n"},
		"contend":   {"$-1\r\n+OK\r\n:1\r\n", ":1\r\n:1\r\n"},
	} {
		w, err := findWorkload(workload)
		if err != nil {
			t.Fatal(err)
		}
		c := &redisClient{
			conn: &conn{net: &canned{answers: answers}, in: make([]byte, 4096)}, load: w.redis, token: "token", picks: make([]int, 2),
			plan: &plan{clients: 1, pipeline: 2, keys: 1, valueSize: testValueSize, wait: 1}, rng: rand.New(rand.NewPCG(1, 2)),
		}
		if n := testing.AllocsPerRun(100, func() { err = errors.Join(err, c.step()) }); n != 0 || err != nil {
			t.Errorf("a step of %s allocates %v times, %v", workload, n, err)
		}
	}
}
