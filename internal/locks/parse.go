package locks

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockd/resp"
)

// ParseList parses the answer to LOCKS LIST, in RESP3, or in RESP2, whose maps are flat arrays. The error is a
// resp.Error if the answer is one. The functions below do so for other commands.
func ParseList(r resp.Reply) ([]Lock, error) {
	p := parser{command: "LOCKS LIST"}
	list := parseEach(&p, r, (*parser).lock)
	return list, p.err
}

// ParseInfo parses the answer to LOCKS INFO of a key. It returns nil if the key has neither a lock nor waiters.
func ParseInfo(key string, r resp.Reply) (*Info, error) {
	if r.IsNil() {
		return nil, nil
	}
	p := parser{command: "LOCKS INFO"}
	f := p.fields(r)
	line := parseEach(&p, f["line"], (*parser).waiter)
	info := &Info{Lock: p.lockOf(f), Line: line, KnownSince: p.time(f, "known-since")}
	info.Key, info.Waiters = key, int64(len(info.Line))
	if p.err != nil {
		return nil, p.err
	}
	return info, nil
}

// ParseHistory parses the answer to LOCKS HISTORY.
func ParseHistory(r resp.Reply) (History, error) {
	p := parser{command: "LOCKS HISTORY"}
	f := p.fields(r)
	h := History{KnownSince: p.time(f, "known-since"), Events: parseEach(&p, f["events"], (*parser).event)}
	return h, p.err
}

// ParseWhy reads the answer of LOCKS WHY: a sentence, and whether anything is known of the token and the lock.
func ParseWhy(r resp.Reply) (said string, known bool) {
	return r.Str, !strings.HasPrefix(r.Str, resp.NothingKnown)
}

// Piece splits an answer to LOCKS LIST or HISTORY with CURSOR into the next cursor, "0" at the end, and the answer as
// it is without CURSOR. It returns any other reply whole.
func Piece(r resp.Reply) (cursor string, answer resp.Reply) {
	switch {
	case len(r.Elems) < 2:
	case r.Elems[0].Str == "cursor":
		cursor, answer = r.Elems[1].Str, r
		answer.Elems = r.Elems[2:]
	case r.Elems[1].Kind == resp.KindArray:
		cursor, answer = r.Elems[0].Str, r.Elems[1]
	}
	if _, err := strconv.ParseUint(cursor, 10, 64); err != nil {
		return "0", r
	}
	return cursor, answer
}

// FieldOf returns a field of an answer that is a map; the zero Reply if it is absent.
func FieldOf(r resp.Reply, name string) resp.Reply {
	for i := 0; i+1 < len(r.Elems); i += 2 {
		if r.Elems[i].Str == name {
			return r.Elems[i+1]
		}
	}
	return resp.Reply{}
}

// ParseDoctor parses the answer to LOCKS DOCTOR.
func ParseDoctor(r resp.Reply) (Diagnosis, error) {
	p := parser{command: "LOCKS DOCTOR"}
	f := p.fields(r)
	d := Diagnosis{Node: p.text(f, "node"), SeenSince: p.time(f, "seen-since"), KnownSince: p.time(f, "known-since")}
	d.Findings = parseEach(&p, f["findings"], (*parser).finding)
	return d, p.err
}

// ParseAdvice parses the answer to LOCKS ADVICE: the figures of each kind of lock.
func ParseAdvice(r resp.Reply) ([][]Field, error) {
	p := parser{command: "LOCKS ADVICE"}
	rows := parseEach(&p, p.fields(r)["locks"], (*parser).ordered)
	return rows, p.err
}

// ParseMembers parses the answer to LOCKD MEMBERS.
func ParseMembers(r resp.Reply) ([]Member, error) {
	p := parser{command: "LOCKD MEMBERS"}
	list := parseEach(&p, r, func(p *parser, r resp.Reply) Member {
		f := p.fields(r)
		m := Member{
			ID: p.text(f, "id"), Peer: p.text(f, "peer"), Role: p.text(f, "role"), Suffrage: p.text(f, "suffrage"),
			State: p.text(f, "state"), Applied: p.number(f, "applied"), Version: p.text(f, "version"),
			Level: p.number(f, "level"), Lowest: p.number(f, "lowest"), Highest: p.number(f, "highest"),
		}
		m.Clients = parseEach(p, f["clients"], func(_ *parser, r resp.Reply) string { return r.Str })
		return m
	})
	return list, p.err
}

// parser parses replies and keeps the first error.
type parser struct {
	command string
	err     error
}

func (p *parser) fail(what string) {
	if p.err == nil {
		p.err = fmt.Errorf("the answer to %s is not understood: %s", p.command, what)
	}
}

// parseEach parses the items of an array; no reply, or a nil, is an empty array.
func parseEach[T any](p *parser, r resp.Reply, one func(*parser, resp.Reply) T) []T {
	switch {
	case r.Kind == resp.KindNone || r.IsNil():
		return nil
	case r.IsErr():
		p.err = resp.Error(r.Str)
		return nil
	case r.Kind != resp.KindArray:
		p.fail("there is no array")
		return nil
	}
	list := make([]T, 0, len(r.Elems))
	for _, e := range r.Elems {
		list = append(list, one(p, e))
	}
	return list
}

// fields are the fields of a map; an absent one is the zero Reply.
type fields map[string]resp.Reply

func (p *parser) fields(r resp.Reply) fields {
	switch {
	case r.IsErr():
		p.err = resp.Error(r.Str)
		return nil
	case r.Kind != resp.KindMap && r.Kind != resp.KindArray || len(r.Elems)%2 != 0:
		p.fail("there is no map")
		return nil
	}
	f := make(fields, len(r.Elems)/2)
	for i := 0; i < len(r.Elems); i += 2 {
		f[r.Elems[i].Str] = r.Elems[i+1]
	}
	return f
}

// text returns a field, "" if it is absent or nil.
func (p *parser) text(f fields, name string) string {
	switch r := f[name]; r.Kind {
	case resp.KindBulk, resp.KindStatus, resp.KindVerbatim:
		return r.Str
	case resp.KindNone, resp.KindNil, resp.KindNilArray:
	default:
		p.fail(name + " is no text")
	}
	return ""
}

// number returns a field, 0 if it is absent or nil.
func (p *parser) number(f fields, name string) int64 {
	switch r := f[name]; r.Kind {
	case resp.KindInt:
		return r.Int
	case resp.KindNone, resp.KindNil, resp.KindNilArray:
	default:
		p.fail(name + " is no integer")
	}
	return 0
}

// ms returns a field in milliseconds, limited to the range of a Duration.
func (p *parser) ms(f fields, name string) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(min(max(p.number(f, name), -most), most)) * time.Millisecond
}

func (p *parser) time(f fields, name string) time.Time {
	text := p.text(f, name)
	if text == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		p.fail(name + " is no time")
	}
	return t
}

func (p *parser) client(f fields) Client {
	return Client{
		ID: p.number(f, "client-id"), Name: p.text(f, "client-name"), Addr: p.text(f, "client-addr"),
		Node: p.text(f, "node"),
	}
}

func (p *parser) lock(r resp.Reply) Lock {
	f := p.fields(r)
	l := p.lockOf(f)
	l.Key, l.Waiters = p.text(f, "key"), p.number(f, "waiters")
	return l
}

// lockOf parses the fields that LIST and INFO share.
func (p *parser) lockOf(f fields) Lock {
	return Lock{
		Mode: Mode(p.text(f, "mode")), Permits: max(0, p.number(f, "permits")),
		Holders: parseEach(p, f["holders"], (*parser).holder),
	}
}

func (p *parser) holder(r resp.Reply) Holder {
	f := p.fields(r)
	left := p.ms(f, "lease-left-ms")
	return Holder{
		Token: p.text(f, "token"), Owner: p.text(f, "owner"), By: p.text(f, "by"), Client: p.client(f),
		Fence: p.number(f, "fence"), Note: p.text(f, "note"),
		HasLease: left >= 0, LeaseLeft: max(0, left), Lease: p.ms(f, "lease-ms"),
		Since: p.time(f, "since"), Held: p.ms(f, "held-ms"),
		Renewals: p.number(f, "renewals"), LastRenewal: p.time(f, "last-renewal"),
	}
}

func (p *parser) waiter(r resp.Reply) Waiter {
	f := p.fields(r)
	return Waiter{
		Token: p.text(f, "token"), Owner: p.text(f, "owner"), Client: p.client(f), Mode: Mode(p.text(f, "mode")),
		Waited: p.ms(f, "waited-ms"), Left: p.ms(f, "left-ms"), Note: p.text(f, "note"),
	}
}

func (p *parser) event(r resp.Reply) Event {
	f := p.fields(r)
	return Event{
		Time: p.time(f, "time"), Tick: p.number(f, "tick"), Event: p.text(f, "event"),
		Token: p.text(f, "token"), Owner: p.text(f, "owner"), Mode: Mode(p.text(f, "mode")),
		Fence: p.number(f, "fence"), By: p.text(f, "by"), Client: p.client(f), Note: p.text(f, "note"), Reason: p.text(f, "reason"),
		DB:     p.number(f, "db"),
		Waited: p.ms(f, "waited-ms"), Held: p.ms(f, "held-ms"), Lease: p.ms(f, "lease-ms"),
		Renewals: p.number(f, "renewals"), LastRenewal: p.time(f, "last-renewal"),
	}
}

func (p *parser) finding(r resp.Reply) Finding {
	f := p.fields(r)
	rest := slices.DeleteFunc(p.ordered(r), func(of Field) bool { return of.Name == "says" || of.Value == "" })
	return Finding{Keys: p.text(f, "keys"), Says: p.text(f, "says"), Fields: rest}
}

// ordered returns the fields of a map in the server's order.
func (p *parser) ordered(r resp.Reply) []Field {
	list := make([]Field, 0, len(p.fields(r)))
	for i := 0; i+1 < len(r.Elems); i += 2 {
		of := Field{Name: r.Elems[i].Str, Value: r.Elems[i+1].Str}
		if v := r.Elems[i+1]; v.Kind == resp.KindInt {
			of.Value = strconv.FormatInt(v.Int, 10)
		}
		list = append(list, of)
	}
	return list
}
