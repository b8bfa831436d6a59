package model

import (
	"slices"
	"time"

	"lockd/jepsen-lite/history"
)

// wakeBound is how long a message may take without a fault.
const wakeBound = int64(2 * time.Second)

// ear is one subscription: from its confirmation until its connection ended.
type ear struct {
	process     int
	key         string
	start       *history.Op
	from, until int64
	heard       map[string]*history.Op
	order       []string
}

// WakeUp judges releases that publish: publish message = receivers. A subscriber's
// process records listen = OK, message = text, and cut when its connection ended.
// Who listens hears every acknowledged message, or is cut off; in one order for
// all; and nothing that was not sent.
func WakeUp(h *history.History) *Verdict {
	v := &Verdict{}
	ears, sent := listeners(v, h)
	for _, e := range ears {
		for text, p := range sent {
			if p.Key == e.key && p.OK() && p.Start > e.from {
				e.missed(v, h, p, e.heard[text])
			}
		}
	}
	orders(v, ears)
	v.Note("%d subscriptions, %d messages", len(ears), len(sent))
	return v
}

func listeners(v *Verdict, h *history.History) (ears []*ear, sent map[string]*history.Op) {
	open := map[int]*ear{}
	sent = map[string]*history.Op{}
	for i := range h.Ops {
		o := &h.Ops[i]
		e := open[o.Process]
		switch {
		case o.Name == "publish":
			sent[o.In[0]] = o
		case o.Name == "listen" && o.OK():
			e = &ear{process: o.Process, key: o.Key, start: o, from: o.End, until: h.End, heard: map[string]*history.Op{}}
			open[o.Process] = e
			ears = append(ears, e)
		case o.Name == "cut" && e != nil:
			e.until = o.Start
			delete(open, o.Process)
		case o.Name == "message" && e != nil:
			e.hear(v, o)
		}
	}
	for _, e := range ears {
		for text, o := range e.heard {
			if p := sent[text]; p == nil || p.Start > o.End || p.Outcome == history.Fail {
				v.Add("never published", o, "nobody sent it, or it was refused")
			}
		}
	}
	return ears, sent
}

func (e *ear) hear(v *Verdict, o *history.Op) {
	text := o.Out[0]
	if e.heard[text] != nil {
		v.Add("heard twice", o, "%s", e.heard[text])
		return
	}
	e.heard[text] = o
	e.order = append(e.order, text)
}

// missed judges one message that was acknowledged while e listened.
func (e *ear) missed(v *Verdict, h *history.History, p, heard *history.Op) {
	due := p.End + wakeBound
	due += h.Disturbed(p.Start, due+60*int64(time.Second), settleTime)
	switch {
	case heard == nil && e.until >= min(due, h.End) && h.End > due:
		v.Add("not woken", p, "process %d listened since %s, was not cut off, and did not hear it", e.process, e.start)
	case heard != nil && heard.Start > due:
		v.Add("woken late", heard, "%.3f s after %s", float64(heard.Start-p.End)/1e9, p)
	}
}

// orders checks that any two subscribers heard what both heard in the same order.
func orders(v *Verdict, ears []*ear) {
	for i, a := range ears {
		for _, b := range ears[i+1:] {
			if a.key != b.key {
				continue
			}
			last, at := -1, ""
			for _, text := range a.order {
				j := slices.Index(b.order, text)
				if j < 0 {
					continue
				}
				if j < last {
					v.Add("order differs", b.heard[text], "process %d heard %s before it, process %d after it", a.process, at, b.process)
					break
				}
				last, at = j, text
			}
		}
	}
}
