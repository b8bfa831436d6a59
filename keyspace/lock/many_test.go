package lock

import (
	"fmt"
	"math"
	"testing"
)

func holder(token string, fence uint64, tick int64) *Holder {
	return &Holder{Token: token, Fence: fence, Tick: tick}
}

// shown names the holders of a lock with their fences.
func shown(l *Many) (text string) {
	if l == nil {
		return "nil"
	}
	for h := range l.Each {
		text += fmt.Sprint(" ", h.Token, h.Fence)
	}
	return text
}

// The first holder is the one whose lease ends first, the last whose ends last: of leases that end at once, the older.
func TestFirstAndLast(t *testing.T) {
	a, b, c, d := holder("a", 1, 20), holder("b", 2, 10), holder("c", 3, 10), holder("d", 4, 20)
	l := NewMany(Shared, a, b, c, d)
	if l.First() != b || l.Last() != a || l.Newest() != d || l.Len() != 4 || (*Many)(nil).Len() != 0 {
		t.Errorf("%v, %v, %v", l.First(), l.Last(), l.Newest())
	}
	if only := NewMany(2, a); only.First() != a || only.Last() != a {
		t.Error("one holder")
	}
}

func TestTextBytes(t *testing.T) {
	l := NewMany(Shared, &Holder{Token: "12", Owner: "345", Note: "6789"}, &Holder{Token: "1"})
	if l.TextBytes() != 10 {
		t.Error(l.TextBytes())
	}
}

// A lock with a limit has room for so many, one held SHARED for HoldersMax.
func TestHasRoom(t *testing.T) {
	for _, c := range []struct {
		mode Mode
		have int
		room bool
	}{{2, 1, true}, {2, 2, false}, {1, 1, false}, {Shared, HoldersMax - 1, true}, {Shared, HoldersMax, false},
		{HoldersMax + 1, HoldersMax - 1, true}, {HoldersMax + 1, HoldersMax, false}} {
		var holders []*Holder
		for i := range c.have {
			holders = append(holders, holder(fmt.Sprint(i), uint64(i+1), 9))
		}
		if room := NewMany(c.mode, holders...).HasRoom(); room != c.room {
			t.Errorf("%d holders in mode %d: %v", c.have, c.mode, room)
		}
	}
}

// A change of a lock leaves the lock of before as it was.
func TestManyChanges(t *testing.T) {
	l := NewMany(3, holder("a", 1, 10), holder("b", 2, 20))
	for _, c := range []struct{ have, want string }{
		{shown(l.With(holder("c", 3, 5))), " a1 b2 c3"},
		{shown(l.With(holder("a", 9, 5))), " a9 b2"},
		{shown(l.Without(func(h *Holder) bool { return h.Token == "a" })), " b2"},
		{shown(l.Without(func(h *Holder) bool { return true })), "nil"},
		{shown(l.Until(func(h *Holder) { h.Fence += 5 })), " a6 b7"},
		{shown(l), " a1 b2"},
		{fmt.Sprint(l.With(holder("c", 3, 5)).Mode(), l.Without(func(*Holder) bool { return false }).Mode(),
			l.Until(func(*Holder) {}).Mode()), "3 3 3"},
		{fmt.Sprint(l.Holder("b").Fence, l.Holder("c") == nil), "2 true"},
	} {
		if c.have != c.want {
			t.Errorf("%s, not %s", c.have, c.want)
		}
	}
	var seen string
	l.Each(func(h *Holder) bool {
		seen += h.Token
		return false
	})
	if seen != "a" {
		t.Error(seen)
	}
}

func TestMissing(t *testing.T) {
	a, b, c, d := holder("a", 1, 9), holder("b", 3, 9), holder("c", 5, 9), holder("d", 7, 9)
	for _, l := range []struct {
		of, in *Many
		want   string
	}{
		{NewMany(Shared, a, b, c), NewMany(Shared, b), "ac"},
		{NewMany(Shared, b), NewMany(Shared, a, b, c), ""},
		{NewMany(Shared, a, b, c, d), NewMany(Shared, holder("x", 2, 9), b, d), "ac"},
		{NewMany(Shared, c, d), NewMany(Shared, a, b), "cd"},
		{NewMany(Shared, a, b), nil, "ab"},
		{nil, NewMany(Shared, a), ""},
		{nil, nil, ""},
	} {
		have := ""
		l.of.Missing(l.in, func(h *Holder) { have += h.Token })
		if have != l.want {
			t.Errorf("%s without %s: %s, not %s", shown(l.of), shown(l.in), have, l.want)
		}
	}
}

// A renewal counts, up to the greatest number, and says how long the lease is; that a lease ends is none.
func TestRenew(t *testing.T) {
	f := Facts{LeaseMs: 5, Renewals: 1}
	if f.Renew(130, 100); f.LeaseMs != 30 || f.Renewals != 2 {
		t.Errorf("%+v", f)
	}
	if f.Renew(NoLease, 100); f.LeaseMs != -1 || f.Renewals != 2 {
		t.Errorf("%+v", f)
	}
	f.Renewals = math.MaxUint32
	if f.Renew(130, 100); f.Renewals != math.MaxUint32 {
		t.Errorf("%+v", f)
	}
}

// Of Admit's answers: who holds a lock has it, others wait, and another number of holders is an error.
func TestAdmit(t *testing.T) {
	one := &Holding{Held: true, Token: "h", Ends: 9}
	two := &Holding{Held: true, Many: NewMany(2, holder("h", 1, 9)), Ends: 9}
	full := &Holding{Held: true, Many: NewMany(2, holder("h", 1, 9), holder("i", 2, 9)), Ends: 9}
	shared := &Holding{Held: true, Many: NewMany(Shared, holder("h", 1, 9)), Ends: 9}
	for _, c := range []struct {
		h    *Holding
		want Want
		says string
	}{
		{&Holding{}, Want{Token: "a"}, "0 <nil>"},
		{one, Want{Token: "h"}, "0 <nil>"},
		{one, Want{Token: "a"}, "2 <nil>"},
		{one, Want{Token: "a", Mode: Shared}, "2 <nil>"},
		{one, Want{Token: "h", Mode: Shared}, "2 the token holds the lock in another mode"},
		{two, Want{Token: "a", Mode: 2}, "1 <nil>"},
		{two, Want{Token: "h", Mode: 2}, "0 <nil>"},
		{two, Want{Token: "a", Mode: 3}, "2 the lock is held with a limit of 2"},
		{two, Want{Token: "h", Mode: 1}, "2 the lock is held with a limit of 2"},
		{&Holding{Held: true, Many: NewMany(1, holder("h", 1, 9)), Ends: 9}, Want{Token: "a", Mode: 2}, "2 the lock is held with a limit of 1"},
		{two, Want{Token: "a", Mode: Shared}, "2 <nil>"},
		{two, Want{Token: "h", Mode: Shared}, "2 the token holds the lock in another mode"},
		{two, Want{Token: "a"}, "2 <nil>"},
		{full, Want{Token: "a", Mode: 2}, "2 <nil>"},
		{shared, Want{Token: "a", Mode: Shared}, "1 <nil>"},
		{shared, Want{Token: "a", Mode: 1}, "2 <nil>"},
		{shared, Want{Token: "h"}, "2 the token holds the lock in another mode"},
	} {
		answer, err := c.h.Admit(&c.want)
		if have := fmt.Sprint(int(answer), " ", err); have != c.says {
			t.Errorf("%+v of %+v: %s, not %s", c.want, c.h, have, c.says)
		}
	}
}
