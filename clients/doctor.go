package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// finding is one finding of LOCKS DOCTOR.
type finding struct{ mistake, keys, says string }

// truths are findings about libraries, or about scenes, that are correct; part is a part of the keys' names.
var truths = []struct{ mistake, part, why string }{
	{"late-release", "failover", "so it is: the leader dies while the lock is held, and the release may come too late"},
	{"constant-token", "rq:clean_registries", "so it is: the workers of RQ take it with 1, and leave it to its lease"},
}

// examiner collects the findings of LOCKS DOCTOR. Its methods may be called concurrently.
type examiner struct {
	mu    sync.Mutex
	found []finding
	told  int   // of them in the results of suites already
	err   error // of a node that did not answer
}

// ask asks a node, at the end of a suite and before it is killed: its observations die with it.
func (e *examiner) ask(ctx context.Context, addr string) {
	c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ReadTimeout: askMax, Protocol: 3})
	defer func() { _ = c.Close() }()
	said, err := c.Do(ctx, "LOCKS", "DOCTOR").Result()
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		e.err = errors.Join(e.err, fmt.Errorf("LOCKS DOCTOR at %s: %w", addr, err))
		return
	}
	fields, _ := said.(map[any]any)
	list, ok := fields["findings"].([]any)
	if !ok {
		e.err = errors.Join(e.err, fmt.Errorf("LOCKS DOCTOR at %s: %v", addr, said))
	}
	for _, item := range list {
		f, _ := item.(map[any]any)
		e.add(finding{fmt.Sprint(f["mistake"]), fmt.Sprint(f["keys"]), fmt.Sprint(f["says"])})
	}
}

// add keeps a finding, unless this or another node reported it before.
func (e *examiner) add(f finding) {
	if !slices.ContainsFunc(e.found, func(o finding) bool { return o.mistake == f.mistake && o.keys == f.keys }) {
		e.found = append(e.found, f)
	}
}

// judge returns the result of a suite: it passes if every finding about it is correct.
func (e *examiner) judge(s *suite, target string) result {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := result{
		suite: s.name, target: target, client: "all", version: "-", mode: "-", scene: "doctor", verdict: verdictOK,
	}
	var words []string
	for _, f := range e.found[e.told:] {
		why := f.isTrue()
		if why == "" {
			r.verdict = verdictFail
		}
		words = append(words, strings.TrimSuffix(f.mistake+": "+f.says+" "+why, " "))
	}
	if e.told = len(e.found); e.err != nil {
		r.verdict, words, e.err = verdictFail, append(words, e.err.Error()), nil
	}
	r.words = strings.Join(words, " | ")
	return r
}

// isTrue returns why a finding is correct; "" if it is unexpected.
func (f finding) isTrue() string {
	for _, t := range truths {
		if t.mistake == f.mistake && strings.Contains(f.keys, t.part) {
			return "(" + t.why + ")"
		}
	}
	return ""
}
