package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

// events sends a browser the changes of a page as server-sent events, until the browser disconnects.
func (c *Console) events(w http.ResponseWriter, r *http.Request) {
	p := pages[r.PathValue("page")]
	if p == nil {
		http.NotFound(w, r)
		return
	}
	q, err := parseQuery(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	lang, of := languageOf(r.Header.Get("Accept-Language")), questionOf(r, p, &q)
	values, err := c.ask(r.Context(), of)
	if answerRefusal(w, lang, err) {
		return
	}
	updates, leave := c.watch.join(of)
	if updates == nil {
		w.Header().Set("Retry-After", "10")
		http.Error(w, "Too many browsers watch this node.", http.StatusServiceUnavailable)
		return
	}
	defer leave()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // so that proxies do not buffer events
	s := stream{w: w, control: http.NewResponseController(w)}
	s.follow(r.Context(), c.ctx, updates, answer{values, err}, func(a answer) string {
		html, _, _ := c.live(lang, p, &q, a.values, a.err)
		return html
	})
}

// stream writes the server-sent events of one browser.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	last    string
}

// follow writes what(update) for each update, until the browser has disconnected, is too slow, has watched for
// watchTimeMax, is refused by the node, or the console stops.
func (s *stream) follow(browser, console context.Context, updates <-chan answer, a answer, what func(answer) string) {
	_ = s.control.SetReadDeadline(time.Time{}) // the request's deadline; the connection would break later
	silence, end := time.NewTicker(silenceMax), time.After(watchTimeMax)
	defer silence.Stop()
	if s.write("retry: 3000\n\n") != nil || s.view(what(a)) != nil {
		return
	}
	for {
		var err error
		select {
		case a = <-updates:
			if errors.As(a.err, &refusedError{}) {
				return
			}
			err = s.view(what(a))
		case <-silence.C:
			err = s.write(":\n\n")
		case <-end:
			return
		case <-browser.Done():
			return
		case <-console.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// view writes a new state of the page, as a JSON string, so that no line break in a name ends the event.
func (s *stream) view(html string) error {
	if html == s.last {
		return nil
	}
	s.last = html
	var frame bytes.Buffer
	frame.WriteString("event: view\ndata: ")
	e := json.NewEncoder(&frame)
	e.SetEscapeHTML(false) // it would double the length
	if err := e.Encode(html); err != nil {
		return err
	}
	return s.write(frame.String() + "\n")
}

func (s *stream) write(text string) error {
	if err := s.control.SetWriteDeadline(time.Now().Add(frameTimeMax)); err != nil {
		return err
	}
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.control.Flush()
}
