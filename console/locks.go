package console

import (
	"time"
)

// record is a map of an answer: names and values in turn.
type record map[string]any

func recordOf(v any) record {
	list, _ := v.([]any)
	r := record{}
	for i := 0; i+1 < len(list); i += 2 {
		if name, ok := list[i].([]byte); ok {
			r[string(name)] = list[i+1]
		}
	}
	return r
}

// recordsOf are the maps of a list.
func recordsOf(v any) []record {
	list, _ := v.([]any)
	records := make([]record, len(list))
	for i := range list {
		records[i] = recordOf(list[i])
	}
	return records
}

func (r record) text(name string) string { b, _ := r[name].([]byte); return string(b) }
func (r record) num(name string) int64   { n, _ := r[name].(int64); return n }

// time is a time of an answer; zero where there is none.
func (r record) time(name string) time.Time {
	t, _ := time.Parse(time.RFC3339Nano, r.text(name)) // zero for what is no time
	return t
}

// client is who sent a command, as far as it is known.
type client struct {
	ID               int64
	Name, Addr, Node string
}

func (r record) client() client {
	return client{ID: r.num("client-id"), Name: r.text("client-name"), Addr: r.text("client-addr"), Node: r.text("node")}
}

// holder is one of LOCKS INFO and LIST.
type holder struct {
	Client                 client
	Token, Owner, By, Note string
	Fence                  int64
	LeftMs, LeaseMs        int64 // LeftMs < 0: the lease has no end; LeaseMs 0: not known
	HeldMs, Renewals       int64
	Since, LastRenewal     string
	since                  time.Time
}

func holderOf(r record) holder {
	return holder{
		Client: r.client(), Token: r.text("token"), Owner: r.text("owner"), By: r.text("by"), Note: r.text("note"),
		Fence: r.num("fence"), LeftMs: r.num("lease-left-ms"), LeaseMs: r.num("lease-ms"), HeldMs: r.num("held-ms"),
		Renewals: r.num("renewals"), Since: r.text("since"), LastRenewal: r.text("last-renewal"), since: r.time("since"),
	}
}

// Name is the shortest that says who it is.
func (h *holder) Name() string { return firstOf(h.owner(), h.Client.Name, h.Token) }

// owner is the owner, if he is another than the token.
func (h *holder) owner() string {
	if h.Owner == h.Token {
		return ""
	}
	return h.Owner
}

// Ends reports whether the lease ends.
func (h *holder) Ends() bool { return h.LeftMs >= 0 }

// Percent is what is left of the lease.
func (h *holder) Percent() int64 {
	if !h.Ends() {
		return 100
	}
	if h.LeaseMs <= 0 {
		return 0
	}
	return min(100, 100*h.LeftMs/h.LeaseMs)
}

// Low reports whether the lease should have been begun anew by now.
func (h *holder) Low() bool { return h.Percent() <= 33 }

// waiter is one of the line of LOCKS INFO.
type waiter struct {
	Client                   client
	Token, Owner, Mode, Note string
	WaitedMs, LeftMs         int64
}

func waiterOf(r record) waiter {
	return waiter{
		Client: r.client(), Token: r.text("token"), Owner: r.text("owner"), Mode: r.text("mode"), Note: r.text("note"),
		WaitedMs: r.num("waited-ms"), LeftMs: r.num("left-ms"),
	}
}

// lock is one of LOCKS LIST, or the answer to LOCKS INFO.
type lock struct {
	Key, Mode       string
	Permits         int64
	Holders         []holder
	Waiters         int64
	Line            []waiter
	HolderCount     int
	HeldMs, LeastMs int64 // the longest, and what is left of the lease that ends first
	URL             string
}

func lockOf(r record, db int) lock {
	l := lock{Key: r.text("key"), Mode: r.text("mode"), Permits: r.num("permits"), Waiters: r.num("waiters"), LeastMs: -1}
	for _, of := range recordsOf(r["holders"]) {
		h := holderOf(of)
		l.Holders = append(l.Holders, h)
		l.HeldMs = max(l.HeldMs, h.HeldMs)
		if h.Ends() && (l.LeastMs < 0 || h.LeftMs < l.LeastMs) {
			l.LeastMs = h.LeftMs
		}
	}
	for _, of := range recordsOf(r["line"]) {
		l.Line = append(l.Line, waiterOf(of))
	}
	l.HolderCount = len(l.Holders)
	l.URL = lockURL(db, l.Key)
	return l
}

// More is how many holders are not shown.
func (l *lock) More() int { return l.HolderCount - len(l.Holders) }

// event is one of LOCKS HISTORY.
type event struct {
	Client                                           client
	Time, Kind, Token, Owner, By, Mode, Reason, Note string
	Fence, WaitedMs, HeldMs, LeaseMs, Renewals       int64
	at                                               time.Time
	URL                                              string // what became of its token; "": it has none
}

func eventOf(r record, db int, key string) event {
	e := event{
		Client: r.client(), Time: r.text("time"), Kind: r.text("event"), Token: r.text("token"), Owner: r.text("owner"),
		By: r.text("by"), Mode: r.text("mode"), Reason: r.text("reason"), Note: r.text("note"), Fence: r.num("fence"),
		WaitedMs: r.num("waited-ms"), HeldMs: r.num("held-ms"), LeaseMs: r.num("lease-ms"), Renewals: r.num("renewals"),
		at: r.time("time"),
	}
	if e.Token != "" {
		e.URL = whyURL(db, key, e.Token)
	}
	return e
}

// Bad reports whether somebody has lost a lock that he did not give back.
func (e *event) Bad() bool {
	switch e.Kind {
	case "expired", "deleted", "overwritten", "forced", "flushed", "swapped":
		return true
	}
	return false
}

// member is one of LOCKD MEMBERS.
type member struct {
	ID, Peer, Role, Suffrage, State string
	Clients                         []string
	Applied, Behind                 int64
	Here                            bool
}

func memberOf(r record) member {
	m := member{
		ID: r.text("id"), Peer: r.text("peer"), Role: r.text("role"), Suffrage: r.text("suffrage"),
		State: r.text("state"), Applied: r.num("applied"),
	}
	clients, _ := r["clients"].([]any)
	for _, addr := range clients {
		if b, ok := addr.([]byte); ok {
			m.Clients = append(m.Clients, string(b))
		}
	}
	return m
}

func firstOf(names ...string) string {
	for _, name := range names {
		if name != "" {
			return name
		}
	}
	return ""
}
