package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockd/bench/load"
)

// A promise is met on the right side of its bound, the bound included; a value that could not be measured counts as
// missed, with the reason.
func TestJudgeLimits(t *testing.T) {
	r := &scaleReport{Series: []series{{"set, by number of clients", []step{{"50", load.Sample{PerSecond: 1234, P50: 1500}}}}}}
	l := limit{name: "some", promises: []promise{{"a", 1.5, "x", most}, {"b", 1.5, "x", most}, {"c", 0.8, "s", least}, {"d", 0.8, "s", least}}}
	r.Outcomes = append(r.Outcomes, l.judge([]finding{{1.5, "is"}, {1.51, "is"}, {0.8, "is"}, {0.79, "is"}}, nil)...)
	l = limit{name: "other", promises: []promise{{"e", 0, "", most}, {"f", 3, "ms", most}}}
	r.Outcomes = append(r.Outcomes, l.judge(nil, errors.New("it fell over"))...)
	var out strings.Builder
	r.print(&out)
	for _, want := range [][]string{
		{"some", "a", "1.50", "x", "<=", "1.5", "x", "met", "is"},
		{"some", "b", "1.51", "x", "<=", "1.5", "x", "MISSED", "is"},
		{"some", "c", "0.80", "s", ">=", "0.8", "s", "met", "is"},
		{"some", "d", "0.79", "s", ">=", "0.8", "s", "MISSED", "is"},
		{"other", "e", "-", "<=", "0", "MISSED", "it", "fell", "over"},
		{"other", "f", "-", "<=", "3", "ms", "MISSED", "it", "fell", "over"},
		{"50", "1234", "1.50", "0.00", "0.00", "0.00"},
		{"4", "missed"},
	} {
		if !slices.ContainsFunc(strings.Split(out.String(), "\n"), func(line string) bool { return slices.Equal(strings.Fields(line), want) }) {
			t.Errorf("there is no line %q in\n%s", want, out.String())
		}
	}
}

// Without names all limits are chosen, else the named ones, in that order. An unknown name is an error that lists the
// known ones.
func TestChosenLimits(t *testing.T) {
	for _, tt := range []struct {
		only []string
		want string
	}{
		{nil, "memory, keys, snapshot, restart, expiry, idle, soak, kill, term, transfer, stop, costly, clients, nodes"},
		{[]string{"kill", "idle"}, "kill, idle"},
	} {
		got, err := (&scaleCmd{Only: tt.only}).chosen(limits)
		if err != nil || limitNames(got) != tt.want {
			t.Errorf("--only %v: %s, %v", tt.only, limitNames(got), err)
		}
	}
	if _, err := (&scaleCmd{Only: []string{"idle", "speed"}}).chosen(limits); err == nil || !strings.Contains(err.Error(), `no limit "speed", only memory, keys, `) {
		t.Errorf("error %v", err)
	}
}

func TestKeySizes(t *testing.T) {
	for largest, want := range map[int][]int{5: {5}, 100_000: {100_000}, 200_000: {100_000, 200_000}, 10_000_000: {100_000, 1_000_000, 10_000_000}} {
		if got := keySizes(largest); !slices.Equal(got, want) {
			t.Errorf("up to %d: %v, want %v", largest, got, want)
		}
	}
}

// More connections than this process may open are refused before any is.
func TestNeedFiles(t *testing.T) {
	files, err := filesMax()
	if err != nil {
		t.Fatal(err)
	}
	if err := needFiles(files - filesBesides); err != nil {
		t.Error(err)
	}
	if err := needFiles(unlimited); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("RLIMIT_NOFILE, ulimit -Hn) is %d", files)) {
		t.Errorf("error %v", err)
	}
}

// The gap is the longest time between two acknowledgements, wherever it lies.
func TestPulseGap(t *testing.T) {
	at := time.Now()
	p := &pulse{cancel: func() {}}
	for _, ms := range []int{0, 5, 9, 700, 706, 710} {
		p.acks = append(p.acks, at.Add(time.Duration(ms)*time.Millisecond))
	}
	if got := p.stop(); got != 691*time.Millisecond {
		t.Errorf("gap %s", got)
	}
	if got := (&pulse{cancel: func() {}}).stop(); got != 0 {
		t.Errorf("gap %s without any", got)
	}
}

// A watch keeps the most memory of each half, and the most disk, of any node.
func TestWatch(t *testing.T) {
	f := testFarm(t)
	var w watch
	for range 2 {
		p := behave(t, f, "serve")
		if err := p.await(t.Context(), connects(p.addr)); err != nil {
			t.Fatal(err)
		}
		w.nodes = append(w.nodes, p)
	}
	if err := os.Mkdir(filepath.Join(w.nodes[1].dir, "log"), 0o755); err != nil {
		t.Fatal(err)
	}
	segment := filepath.Join(w.nodes[1].dir, "log", "segment")
	if err := os.WriteFile(segment, make([]byte, 3000), 0o644); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	w.half = now
	if err := w.look(now.Add(-time.Second)); err != nil || w.resident[0] == 0 || w.resident[1] != 0 || w.disk != 3000 {
		t.Errorf("%+v, %v", w, err)
	}
	if err := os.Remove(segment); err != nil {
		t.Fatal(err)
	}
	if err := w.look(now.Add(time.Second)); err != nil || w.resident[1] == 0 || w.disk != 3000 {
		t.Errorf("%+v, %v", w, err)
	}
	w.nodes[0].Kill()
	if err := w.look(now); err == nil {
		t.Error("the memory of a node that has ended is no error")
	}
}

// askOnce wants the answer of a server that has no such key.
func TestAskOnce(t *testing.T) {
	for answer, want := range map[string]string{"$-1\r\n": "", "-NOAU": "answered GET with", "": "EOF"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			io.ReadFull(c, make([]byte, len("GET none\r\n")))
			io.WriteString(c, answer)
		}()
		c, err := askOnce(t.Context(), l.Addr().String())
		if err == nil {
			c.Close()
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("answered %q: %v", answer, err)
		}
	}
}

// builtDir contains the lockd that built builds; TestMain removes it.
var builtDir string

// built is a real lockd, built once for all tests.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "lockd-bench-test-")
	if err != nil {
		return "", err
	}
	builtDir = dir
	binary := filepath.Join(dir, "lockd")
	return binary, buildLockd(context.Background(), binary)
})

// smallScale is a try of each limit, as small as it can be.
func smallScale() *scaleCmd {
	return &scaleCmd{Keys: 600, MostKeys: 600, Expiring: 600, Idle: 20, Clients: []int{1, fullClients}, Soak: time.Second, Handover: 1, Costly: 10, Time: time.Second, Rounds: 1}
}

// Sizes that leave nothing to measure are refused.
func TestCheckScale(t *testing.T) {
	if err := smallScale().check(); err != nil {
		t.Error(err)
	}
	for want, spoil := range map[string]func(*scaleCmd){
		"--idle must be":        func(c *scaleCmd) { c.Idle = 0 },
		"--soak must be":        func(c *scaleCmd) { c.Soak = -time.Second },
		"--clients [1 2] lacks": func(c *scaleCmd) { c.Clients = []int{1, 2} },
	} {
		c := smallScale()
		spoil(c)
		if err := c.run(t.Context(), io.Discard, io.Discard); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// Real nodes go through some of the limits, in a small size: each has its finding, and the file has all of them.
func TestScaleSmall(t *testing.T) {
	binary, err := built()
	if err != nil {
		t.Fatal(err)
	}
	c := smallScale()
	c.Only, c.Binary, c.JSON = []string{"restart", "idle", "kill", "transfer", "stop", "costly"}, binary, filepath.Join(t.TempDir(), "figures.json")
	var out strings.Builder
	if err := c.run(t.Context(), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(c.JSON)
	if err != nil {
		t.Fatal(err)
	}
	var r scaleReport
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range r.Outcomes {
		names = append(names, o.Limit)
		if o.Error != "" || o.Detail == "" || o.Limit != "idle" && o.Bound > 0 && o.Measured <= 0 {
			t.Errorf("%+v", o)
		}
	}
	if !slices.Equal(slices.Compact(names), c.Only) || !strings.HasPrefix(r.Version, "lockd ") {
		t.Errorf("%v in the file of %q; printed:\n%s", names, r.Version, out.String())
	}
}

// A limit that cannot be measured does not keep the others from it: here there is no
// lockd, but a program that knows its version.
func TestScaleGoesOn(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "lockd")
	if err := os.WriteFile(binary, []byte("#!/bin/sh\n[ \"$1\" = version ] && echo lockd 7 && exit\necho no disk\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	c := smallScale()
	c.Only, c.Binary = []string{"restart", "term"}, binary
	if err := c.run(t.Context(), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.Count(text, "ended by itself: exit status 1: no disk") != 4 || !strings.HasSuffix(text, "\n4 missed\n") {
		t.Errorf("printed:\n%s", text)
	}
}
