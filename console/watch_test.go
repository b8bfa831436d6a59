package console

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockd/resp"
)

// watcher is a browser that reads server-sent events.
type watcher struct {
	hang   bool // it takes nothing
	cancel context.CancelFunc
	ended  chan struct{}

	mu       sync.Mutex
	header   http.Header
	status   int
	text     strings.Builder
	deadline time.Time
}

func (w *watcher) Header() http.Header  { return w.header }
func (w *watcher) WriteHeader(code int) { w.status = code }
func (w *watcher) Flush()               {}

func (w *watcher) SetReadDeadline(time.Time) error { return nil }
func (w *watcher) SetWriteDeadline(t time.Time) error {
	w.deadline = t
	return nil
}

func (w *watcher) Write(p []byte) (int, error) {
	if w.hang && w.status == 0 {
		time.Sleep(time.Until(w.deadline))
		return 0, context.DeadlineExceeded
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

// take returns the events since the last call.
func (w *watcher) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.text.Reset()
	return w.text.String()
}

// follow watches a path until the test ends it.
func follow(c *Console, path string, hang bool, with ...asking) *watcher {
	w := &watcher{header: http.Header{}, ended: make(chan struct{}), hang: hang}
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for _, change := range with {
		change(r)
	}
	var ctx context.Context
	ctx, w.cancel = context.WithCancel(context.Background())
	go func() {
		defer close(w.ended)
		c.http.Handler.ServeHTTP(w, r.WithContext(ctx))
	}()
	return w
}

// A watcher gets the present state at once and then each change once, in frames that no name can break.
func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := aNode(t, hostile)
		c, _ := aConsole(node)
		w := follow(c, "/events/locks", false)
		synctest.Wait()
		first := w.take()
		frames := strings.SplitAfter(first, "\n\n")
		if len(frames) != 3 || frames[0] != "retry: 3000\n\n" || w.header.Get("Content-Type") != "text/event-stream" {
			t.Fatalf("%q", first)
		}
		name, data, _ := strings.Cut(strings.TrimSuffix(frames[1], "\n\n"), "\ndata: ")
		var html string
		if err := json.Unmarshal([]byte(data), &html); err != nil || name != "event: view" || strings.ContainsAny(data, "\r\n") {
			t.Errorf("%v: %q", err, frames[1])
		}
		checkEscaped(t, "the frame", http.StatusOK, html)
		time.Sleep(3 * watchEvery)
		synctest.Wait()
		if again := w.take(); again != "" {
			t.Errorf("what has not changed is told again: %q", again)
		}
		time.Sleep(silenceMax)
		synctest.Wait()
		if again := w.take(); again != ":\n\n" {
			t.Errorf("in silence: %q", again)
		}
		node.set("LOCKS LIST", resp.Array())
		time.Sleep(2 * watchEvery)
		synctest.Wait()
		if now := w.take(); !strings.Contains(now, "No lock is held.") || strings.Count(now, "event: view") != 1 {
			t.Errorf("%q", now)
		}
		node.set("LOCKS LIST", resp.Err("LOADING no leader"))
		time.Sleep(2 * watchEvery)
		synctest.Wait()
		if now := w.take(); !strings.Contains(now, "LOADING no leader") {
			t.Errorf("%q", now)
		}
		w.cancel()
		<-w.ended
		time.Sleep(watchPauseMax)
	})
}

// All watchers of a page share a question, and without watchers there are no questions.
func TestWatchersShareQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := aNode(t, "order:42")
		c, _ := aConsole(node)
		var all []*watcher
		for range 5 {
			all = append(all, follow(c, "/events/locks", false), follow(c, "/events/locks", false, header("Accept-Language", "zh")))
		}
		all = append(all, follow(c, "/events/lock?key=order:42", false))
		synctest.Wait()
		node.takeAsked()
		time.Sleep(watchEvery + time.Millisecond)
		synctest.Wait()
		asked := node.takeAsked()
		slices.Sort(asked)
		if want := []string{"LOCKS HISTORY order:42 COUNT 100", "LOCKS INFO order:42", "LOCKS LIST COUNT 201"}; !slices.Equal(asked, want) {
			t.Errorf("asked %q", asked)
		}
		for _, w := range all {
			w.cancel()
			<-w.ended
		}
		time.Sleep(watchPauseMax)
		node.takeAsked()
		time.Sleep(time.Hour)
		if asked := node.takeAsked(); len(asked) > 0 || len(c.watch.topics) > 0 || c.watch.watchers != 0 {
			t.Errorf("asked %q, %d watchers", asked, c.watch.watchers)
		}
		w := follow(c, "/events/members", false)
		synctest.Wait()
		node.takeAsked()
		time.Sleep(watchEvery + time.Millisecond)
		synctest.Wait()
		if asked := node.takeAsked(); !slices.Equal(asked, []string{"LOCKD MEMBERS"}) {
			t.Errorf("watched again, asked %q", asked)
		}
		w.cancel()
		<-w.ended
		time.Sleep(watchPauseMax)
	})
}

// Questions for watchers take no more than their share of the node's time.
func TestSlowNodeIsAskedLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := aNode(t, "order:42")
		c, _ := aConsole(node)
		w := follow(c, "/events/locks", false)
		synctest.Wait()
		const each = 200 * time.Millisecond
		node.change(func() { node.wait = each })
		time.Sleep(watchEvery * 3 / 2)
		node.takeAsked()
		time.Sleep(100 * time.Second)
		if n := len(node.takeAsked()); n < 20 || n > 100*int(time.Second/each)/watchShare {
			t.Errorf("asked %d times in 100 s", n)
		}
		w.cancel()
		<-w.ended
		time.Sleep(time.Minute)
	})
}

// The number of watchers is bounded; one that does not read is ended, and all are when the console stops.
func TestWatchersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := aNode(t, "order:42")
		c, _ := aConsole(node)
		var all []*watcher
		for i := range watchersMax {
			all = append(all, follow(c, "/events/locks", i == 0))
		}
		synctest.Wait()
		began := time.Now()
		node.change(func() { node.wait = time.Second }) // so that it is asked less, and pages are made less often
		refused := follow(c, "/events/locks", false)
		<-refused.ended
		if refused.status != http.StatusServiceUnavailable {
			t.Errorf("one too many: status %d", refused.status)
		}
		<-all[0].ended
		if took := time.Since(began); took != frameTimeMax {
			t.Errorf("who takes nothing is waited for for %s", took)
		}
		node.change(func() { node.wait = 0 })
		late := follow(c, "/events/locks", false)
		synctest.Wait()
		if late.status != 0 {
			t.Errorf("there is room: status %d", late.status)
		}
		for _, w := range all {
			w.cancel()
			<-w.ended
		}
		node.change(func() { node.wait = 2 * askTimeMax }) // it answers nothing: that is shown once
		time.Sleep(watchTimeMax)
		<-late.ended
		node.change(func() { node.wait = 0 })
		last := follow(c, "/events/locks", false)
		synctest.Wait()
		began = time.Now()
		c.Shutdown(t.Context())
		<-last.ended
		if took := time.Since(began); took != 0 {
			t.Errorf("the stop waits for who watches for %s", took)
		}
		time.Sleep(2 * askTimeMax) // the node still thinks of the last question
	})
}

// A watcher whose password is no longer right gets no more updates.
func TestWatcherLosesPassword(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := aNode(t, "order:42")
		node.password = "hunter2"
		c, _ := aConsole(node)
		w := follow(c, "/events/locks", false, withPassword("", "hunter2"))
		synctest.Wait()
		if !strings.Contains(w.take(), "order:42") {
			t.Error("nothing is told")
		}
		node.change(func() { node.password = "hunter3" })
		<-w.ended
		if told := w.take(); told != "" {
			t.Errorf("told %q", told)
		}
		time.Sleep(watchPauseMax)
	})
}

// A panic while asking ends neither the process nor the watch.
func TestWatchSurvives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log := aConsole(aNode(t, "order:42"))
		asked := 0
		c.watch.ask = func(context.Context, question) ([]resp.Reply, error) {
			if asked++; asked == 1 {
				panic("a defect")
			}
			return []resp.Reply{resp.Array()}, nil
		}
		w := follow(c, "/events/locks", false)
		synctest.Wait()
		time.Sleep(3 * watchEvery)
		synctest.Wait()
		if told := w.take(); !strings.Contains(told, "a defect") || !strings.HasSuffix(told, "No lock is held.</p>\"\n\n") {
			t.Errorf("told %q", told)
		}
		if !strings.Contains(log.String(), "level=ERROR") {
			t.Errorf("log:\n%s", log)
		}
		w.cancel()
		<-w.ended
		time.Sleep(watchPauseMax)
	})
}
