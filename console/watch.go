package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"lockd/resp"
)

// watch asks the questions of watchers in one goroutine, one after the other, each once for all its watchers. It
// stops while there are none.
type watch struct {
	ctx context.Context
	ask func(ctx context.Context, q question) ([]resp.Reply, error)
	log *slog.Logger

	mu       sync.Mutex
	topics   map[string]*topic // by question.key
	watchers int
	running  bool
}

// topic is a question with its watchers.
type topic struct {
	question
	watchers map[chan answer]struct{}
}

type answer struct {
	values []resp.Reply
	err    error
}

// join subscribes the caller to the answers of a question until it calls leave; nil: there are too many watchers. A
// slow watcher misses outdated answers.
func (w *watch) join(q question) (updates <-chan answer, leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watchers >= watchersMax {
		return nil, nil
	}
	key, ch := q.key(), make(chan answer, 1)
	t := w.topics[key]
	if t == nil {
		t = &topic{question: q, watchers: map[chan answer]struct{}{}}
		w.topics[key] = t
	}
	t.watchers[ch] = struct{}{}
	w.watchers++
	if !w.running {
		w.running = true
		go w.run()
	}
	return ch, sync.OnceFunc(func() { w.leave(key, ch) })
}

func (w *watch) leave(key string, ch chan answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watchers--
	t := w.topics[key]
	delete(t.watchers, ch)
	if len(t.watchers) == 0 {
		delete(w.topics, key)
	}
}

// run asks in rounds until there are no watchers. The longer a round takes, the longer is the pause.
func (w *watch) run() {
	for took := time.Duration(0); ; {
		select {
		case <-time.After(min(max(watchEvery, took*(watchShare-1)), watchPauseMax)):
		case <-w.ctx.Done():
			return
		}
		topics := w.watched()
		if topics == nil {
			return
		}
		began := time.Now()
		w.round(topics)
		took = time.Since(began)
	}
}

// watched lists the questions to ask; nil: there are no watchers any more.
func (w *watch) watched() (topics []*topic) {
	w.mu.Lock()
	defer w.mu.Unlock()
	topics = slices.Collect(maps.Values(w.topics))
	w.running = topics != nil
	return topics
}

// round asks all questions. Once one fails after a long wait, the others get its error without being asked.
func (w *watch) round(topics []*topic) {
	var failed answer
	for _, t := range topics {
		a, began := failed, time.Now()
		if failed.err == nil {
			a = w.answer(t)
		}
		if a.err != nil && time.Since(began) >= watchEvery {
			failed = a
		}
		w.send(t, a)
	}
}

func (w *watch) answer(t *topic) (a answer) {
	defer func() {
		if defect := recover(); defect != nil {
			w.log.Error("the console failed to ask", "panic", defect, "stack", string(debug.Stack()))
			a = answer{err: errors.New(fmt.Sprint(defect))}
		}
	}()
	a.values, a.err = w.ask(w.ctx, t.question)
	return a
}

// send hands an answer to all watchers, in place of one that they have not taken.
func (w *watch) send(t *topic, a answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ch := range t.watchers {
		select {
		case <-ch:
		default:
		}
		ch <- a // there is room now: only this goroutine sends
	}
}
