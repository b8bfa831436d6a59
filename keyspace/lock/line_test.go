package lock

import (
	"fmt"
	"slices"
	"testing"
)

func queue(waiters ...*Waiter) *Line {
	l := NewLine()
	for _, w := range waiters {
		l.Enter(w)
	}
	return &l
}

func waiter(space int, key, token string, seq uint64, end int64) *Waiter {
	return &Waiter{Want: Want{Token: token}, Lock: Name{space, key}, Seq: seq, End: end}
}

func tokens(waiters []*Waiter) (all []string) {
	for _, w := range waiters {
		all = append(all, w.Token)
	}
	return all
}

// A wait that ends at a tick is not overdue then. Those that are come in the order of their ends.
func TestOverdue(t *testing.T) {
	l := queue(waiter(0, "k", "a", 1, 30), waiter(0, "k", "b", 2, 20), waiter(0, "k", "c", 3, 40),
		waiter(0, "k", "d", 4, 20), waiter(0, "other", "e", 5, 1), waiter(0, "a", "f", 6, 1))
	for now, want := range map[int64]string{20: "[]", 21: "[b d]", 31: "[b d a]", 40: "[b d a]", 41: "[b d a c]"} {
		if have := fmt.Sprint(tokens(l.Overdue(Name{0, "k"}, now))); have != want {
			t.Errorf("at %d: %s, not %s", now, have, want)
		}
	}
}

// The locks of a space are told in the order of their keys, each once; not those whose waiters are all passed over.
func TestLocks(t *testing.T) {
	away := waiter(1, "c", "t", 3, 9)
	l := queue(waiter(0, "z", "t", 1, 9), waiter(1, "b", "t", 2, 9), away, waiter(1, "a", "u", 5, 9),
		waiter(1, "a", "t", 4, 9), waiter(2, "a", "t", 6, 9))
	l.PassOver(away)
	if have := fmt.Sprint(l.Locks(1)); have != "[{1 a} {1 b}]" {
		t.Error(have)
	}
	l.Resume(away)
	if have := fmt.Sprint(l.Locks(1)); have != "[{1 a} {1 b} {1 c}]" {
		t.Error(have)
	}
}

// The line of one lock does not go on into that of another.
func TestNext(t *testing.T) {
	a, b := waiter(0, "k", "a", 1, 9), waiter(0, "k", "b", 2, 9)
	l := queue(b, a, waiter(0, "l", "c", 3, 9), waiter(0, "j", "d", 4, 9), waiter(1, "k", "e", 5, 9))
	if zero := waiter(0, "zero", "a", 0, 9); queue(zero).First(zero.Lock) != zero {
		t.Error("the lowest place is not the first")
	}
	if l.First(Name{0, "k"}) != a || l.Next(a) != b || l.Next(b) != nil || l.First(Name{0, "none"}) != nil {
		t.Error("wrong order")
	}
	if l.LenOf(Name{0, "k"}) != 2 || l.LenOf(Name{0, "none"}) != 0 || l.Len() != 5 {
		t.Errorf("%d, %d", l.LenOf(Name{0, "k"}), l.Len())
	}
	l.Leave(a)
	if l.LenOf(Name{0, "k"}) != 1 || l.Present(a) || !l.Present(b) || l.Waiter(Name{0, "k"}, "a") != nil {
		t.Error("a has left")
	}
	if l.Leave(b); len(l.counts) != 3 {
		t.Errorf("lines without a waiter are kept: %v", l.counts)
	}
}

// What waits at a place of a waiter need not be that waiter.
func TestPresent(t *testing.T) {
	a := waiter(0, "k", "a", 1, 9)
	l := queue(a)
	if l.Present(waiter(0, "k", "b", 1, 9)) {
		t.Error("another one at the place of a")
	}
}

// Whoever asks gets a lock that lets one more in only if nobody waits for it.
func TestAsk(t *testing.T) {
	name := Name{0, "k"}
	held := &Holding{Held: true, Many: NewMany(Shared, &Holder{Token: "h", Tick: 9}), Ends: 9}
	l := queue(waiter(0, "other", "x", 1, 9))
	if answer, err := l.Ask(name, &Want{Token: "a", Mode: Shared}, held); answer != Yes || err != nil {
		t.Errorf("%v, %v without a line", answer, err)
	}
	l.Enter(waiter(0, "k", "b", 2, 9))
	for mode, want := range map[Mode]Answer{Shared: Taken, Exclusive: Taken} {
		if answer, err := l.Ask(name, &Want{Token: "a", Mode: mode}, held); answer != want || err != nil {
			t.Errorf("mode %d: %v, %v", mode, answer, err)
		}
	}
	if answer, err := l.Ask(name, &Want{Token: "h", Mode: Shared}, held); answer != Yes || err != nil {
		t.Errorf("%v, %v for a holder", answer, err)
	}
	if answer, err := l.Ask(name, &Want{Token: "h", Mode: 3}, held); answer != Taken || err != ErrHeldOtherwise {
		t.Errorf("%v, %v for a holder in another mode", answer, err)
	}
	if answer, err := l.Ask(name, &Want{Token: "a"}, &Holding{Foreign: true, Held: true}); answer != Taken || err != ErrForeign {
		t.Errorf("%v, %v for a key that is no lock", answer, err)
	}
}

// A wait that ends at the tick at which the lock gives way is granted, one that ended before gives up.
func TestTurnInTime(t *testing.T) {
	name := Name{0, "k"}
	k := &keys{held: map[Name]Holding{}}
	table := &Table{Line: queue(waiter(0, "k", "a", 1, 10)), Keys: k}
	for freedAt, want := range map[int64]Action{9: Grant, 10: Grant, 11: GiveUp} {
		if turn := table.Turn(name, freedAt, freedAt, true); turn.Action != want || turn.Waiter.Token != "a" {
			t.Errorf("freed at %d: %+v", freedAt, turn)
		}
	}
	if turn := table.Turn(Name{0, "none"}, 1, 1, true); turn.Action != Rest {
		t.Errorf("%+v", turn)
	}
}

// A waiter whose token has got the lock otherwise is answered wherever it stands, but not while it is passed over.
func TestHolderWaits(t *testing.T) {
	name := Name{0, "k"}
	k := &keys{held: map[Name]Holding{name: {Held: true, Token: "b", Ends: 100}}}
	b := waiter(0, "k", "b", 2, 50)
	table := &Table{Line: queue(waiter(0, "k", "a", 1, 50), b), Keys: k}
	if turn := table.Turn(name, 1, 1, true); turn.Action != Grant || turn.Waiter != b || !table.HolderWaits(name) {
		t.Errorf("%+v", turn)
	}
	if table.Looked != 2 {
		t.Errorf("%d holders looked at", table.Looked)
	}
	table.OnlyEnded, table.Looked = true, 0
	if turn := table.Turn(name, 1, 1, false); turn.Action != Rest || table.Looked != 0 {
		t.Errorf("only waits have ended: %+v, %d holders looked at", turn, table.Looked)
	}
	table.OnlyEnded = false
	table.PassOver(b)
	if turn := table.Turn(name, 1, 1, false); turn.Action != Rest || table.HolderWaits(name) {
		t.Errorf("passed over: %+v", turn)
	}
	table.Resume(b)
	k.held[name] = Holding{Held: true, Foreign: true, Token: "b", Ends: 100}
	if turn := table.Turn(name, 1, 1, true); turn.Action != Refuse || turn.Err != ErrForeign || table.HolderWaits(name) {
		t.Errorf("no lock: %+v", turn)
	}
	if k.held[name] = (Holding{Token: "b", Ends: 100}); table.HolderWaits(name) {
		t.Error("a free lock")
	}
	if table.HolderWaits(Name{0, "none"}) {
		t.Error("nobody waits")
	}
	k.held[Name{0, "l"}] = Holding{Held: true, Token: "a", Ends: 100}
	if table.Enter(waiter(0, "l", "a", 3, 50)); !table.HolderWaits(Name{0, "l"}) {
		t.Error("the holder is the only one that waits")
	}
	k.held[name] = Holding{Held: true, Ends: 100, Many: NewMany(Shared,
		&Holder{Token: "x", Fence: 1, Tick: 100}, &Holder{Token: "b", Fence: 2, Tick: 100}, &Holder{Token: "y", Fence: 3, Tick: 100})}
	if table.Looked = 0; !table.HolderWaits(name) || table.Looked != 2 {
		t.Errorf("second of the holders: %d looked at", table.Looked)
	}
}

// Of a circle only the caller that asks for it is told.
func TestTurnOfCircle(t *testing.T) {
	table, _ := letters(2)
	if turn := table.Turn(first, 10, 10, true); turn.Action != Deadlock || turn.Circle == nil || turn.Waiter != turn.Circle.Waiter {
		t.Errorf("%+v", turn)
	}
	if turn := table.Turn(first, 10, 10, false); turn.Action != Rest {
		t.Errorf("without a search: %+v", turn)
	}
	if !slices.Equal(tokens(table.Overdue(first, 100)), []string{"token of b"}) {
		t.Error("Turn has changed the line")
	}
}
