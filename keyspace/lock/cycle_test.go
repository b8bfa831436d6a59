package lock

import (
	"fmt"
	"strings"
	"testing"
)

// keys is how locks are held, as a test says.
type keys struct {
	held   map[Name]Holding
	moving map[Name]bool
}

func (k *keys) Holding(name Name) Holding { return k.held[name] }
func (k *keys) Moving(name Name) bool     { return k.moving[name] }

// ring is a table in which owner i holds the lock of keys[i], and waits for that of keys[i+1], the last one for the first.
func ring(n int, key, owner func(i int) string) (*Table, *keys) {
	k, line := &keys{map[Name]Holding{}, map[Name]bool{}}, NewLine()
	for i := range n {
		want := Want{Token: "token of " + owner(i), Owner: owner(i)}
		k.held[Name{0, key(i)}] = Holding{Held: true, Token: want.Token, Owner: want.Owner, Ends: 100}
		line.Enter(&Waiter{Want: want, Lock: Name{0, key((i + 1) % n)}, Seq: uint64(i + 1), End: 50})
	}
	return &Table{Line: &line, Keys: k}, k
}

// letters names the keys of a ring k0, k1 ..., and the owners a, b ....
func letters(n int) (*Table, *keys) {
	return ring(n, func(i int) string { return fmt.Sprint("k", i) }, func(i int) string { return string(rune('a' + i)) })
}

var first = Name{0, "k0"}

// The owner whose wait ends is the one that began to wait last.
func TestCircle(t *testing.T) {
	table, _ := letters(2)
	circle := table.Circle(first, 10)
	if circle == nil || circle.Waiter.Owner != "b" {
		t.Fatalf("%+v", circle)
	}
	if table.Circle(Name{0, "free"}, 10) != nil {
		t.Error("a circle through a free lock")
	}
}

// A lock whose lease ends at the present tick is still held, and a wait that ends there still waits. Behind it neither
// does. A key that holds no lock, and a lock that gives way, stop nobody.
func TestCircleTime(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Table, *keys)
		found  bool
	}{
		"as it is": {func(*Table, *keys) {}, true},
		"lease at its end": {func(_ *Table, k *keys) {
			k.held[Name{0, "k1"}] = Holding{Held: true, Token: "x", Owner: "b", Ends: 10}
		}, true},
		"lease over": {func(_ *Table, k *keys) {
			k.held[Name{0, "k1"}] = Holding{Held: true, Token: "x", Owner: "b", Ends: 9}
		}, false},
		"free": {func(_ *Table, k *keys) { delete(k.held, Name{0, "k1"}) }, false},
		"not held, and not over": {func(_ *Table, k *keys) {
			k.held[Name{0, "k1"}] = Holding{Token: "x", Owner: "b", Ends: 100}
		}, false},
		"no lock": {func(_ *Table, k *keys) {
			k.held[Name{0, "k1"}] = Holding{Held: true, Foreign: true, Token: "x", Owner: "b", Ends: 100}
		}, false},
		"gives way":       {func(_ *Table, k *keys) { k.moving[Name{0, "k1"}] = true }, false},
		"wait at its end": {func(l *Table, _ *keys) { again(l, "a", 10) }, true},
		"wait over":       {func(l *Table, _ *keys) { again(l, "a", 9) }, false},
	} {
		table, k := letters(3)
		c.change(table, k)
		if found := table.Circle(first, 10) != nil; found != c.found {
			t.Errorf("%s: %v", name, found)
		}
	}
}

// again has the wait of an owner end at a tick.
func again(l *Table, owner string, end int64) {
	var was *Waiter
	l.owners.Scan(func(w *Waiter) bool {
		if w.Owner == owner {
			was = w
		}
		return true
	})
	l.Leave(was)
	next := *was
	next.End = end
	l.Enter(&next)
}

// A search finds a circle of as many owners as it may look at, and none that is larger.
func TestCircleOwnersMax(t *testing.T) {
	for n, want := range map[int]bool{CircleOwnersMax: true, CircleOwnersMax + 1: false} {
		table, _ := ring(n, func(i int) string { return fmt.Sprint("k", i) }, func(i int) string { return fmt.Sprint("o", i) })
		if circle := table.Circle(first, 10); circle != nil != want {
			t.Errorf("%d owners: %v", n, circle != nil)
		}
	}
}

// A search looks at so many holders and waits, and no more.
func TestCircleLooksMax(t *testing.T) {
	for more, want := range map[int]bool{0: true, 1: false} {
		table, k := letters(2)
		var holders []*Holder // besides them there are the holder of the other lock, and two waits
		for i := range CircleLooksMax - 3 + more {
			holders = append(holders, &Holder{Token: fmt.Sprint(i), Owner: "a", Fence: uint64(i), Tick: 100})
		}
		k.held[first] = Holding{Held: true, Many: NewMany(Shared, holders...), Ends: 100}
		if circle := table.Circle(first, 10); circle != nil != want {
			t.Errorf("%d more: %v", more, circle != nil)
		}
	}
}

// The last holder that a search may look at counts, too, if its owner is known already.
func TestCircleLooksMaxAtTheEnd(t *testing.T) {
	for more, want := range map[int]bool{0: true, 1: false} {
		table, k := letters(2)
		var holders []*Holder // besides them there are the holders of the other lock, and two waits
		for i := range CircleLooksMax - 4 + more {
			holders = append(holders, &Holder{Token: fmt.Sprint(i), Owner: "a", Fence: uint64(i), Tick: 100})
		}
		k.held[first] = Holding{Held: true, Many: NewMany(Shared, holders...), Ends: 100}
		k.held[Name{0, "k1"}] = Holding{Held: true, Ends: 100, Many: NewMany(Shared,
			&Holder{Token: "1", Owner: "b", Fence: 1, Tick: 100}, &Holder{Token: "2", Owner: "b", Fence: 2, Tick: 100})}
		if circle := table.Circle(first, 10); circle != nil != want {
			t.Errorf("%d more: %v", more, circle != nil)
		}
	}
}

// There is no circle as long as one of the holders of a lock waits for one that will give way.
func TestCircleWithAWayOut(t *testing.T) {
	for name, held := range map[string]Holding{
		"stuck": {Held: true, Token: "y", Owner: "b", Ends: 100}, "over": {Held: true, Token: "y", Owner: "b", Ends: 9},
		"free": {}, "moving": {Held: true, Token: "y", Owner: "b", Ends: 100},
	} {
		table, k := letters(2)
		k.held[first] = Holding{Held: true, Ends: 100, Many: NewMany(Shared,
			&Holder{Token: "1", Owner: "a", Fence: 1, Tick: 100}, &Holder{Token: "2", Owner: "c", Fence: 2, Tick: 100})}
		table.Enter(&Waiter{Want: Want{Token: "of c", Owner: "c"}, Lock: Name{0, "out"}, Seq: 7, End: 50})
		k.held[Name{0, "out"}], k.moving[Name{0, "out"}] = held, name == "moving"
		if circle := table.Circle(first, 10); circle != nil != (name == "stuck") {
			t.Errorf("%s: %v", name, circle != nil)
		}
	}
}

// The caller is told how much a search has looked at: locks, holders and waits, and the names of the first two.
func TestCircleWork(t *testing.T) {
	table, _ := ring(2, func(i int) string { return []string{"k0", "key"}[i] }, func(i int) string { return []string{"ann", "berta"}[i] })
	table.Circle(first, 10)
	if table.Looked != 2+2+2 || table.Named != len("k0key")+len("annberta") {
		t.Errorf("%d looks, %d bytes", table.Looked, table.Named)
	}
}

// An owner may wait for several locks: the search follows each of them, and each lock once.
func TestCircleOfSeveralWaits(t *testing.T) {
	table, k := letters(2)
	for i, key := range []string{"k2", "k3"} {
		k.held[Name{0, key}] = Holding{Held: true, Token: "t" + key, Owner: "b", Ends: 100}
		table.Enter(&Waiter{Want: Want{Token: "again", Owner: "a"}, Lock: Name{0, key}, Seq: uint64(10 + i), End: 50})
		table.Enter(&Waiter{Want: Want{Token: "more", Owner: "a"}, Lock: Name{0, key}, Seq: uint64(20 + i), End: 50})
	}
	circle := table.Circle(first, 10)
	if circle == nil || circle.Waiter.Owner != "b" {
		t.Fatalf("%+v", circle)
	}
	if table.Looked != 4+4+6 { // locks, holders, waits
		t.Errorf("%d looks", table.Looked)
	}
	k.held[Name{0, "k3"}] = Holding{Held: true, Token: "t", Owner: "free", Ends: 100}
	if table.Circle(first, 10) == nil {
		return
	}
	t.Error("a circle although an owner of k3 does not wait")
}

// Of the waits for the first lock that circle owners have, the last to have begun ends.
func TestCircleEndsTheLastWait(t *testing.T) {
	table, k := letters(2)
	k.held[Name{0, "k1"}] = Holding{Held: true, Many: NewMany(Shared,
		&Holder{Token: "1", Owner: "b", Fence: 1, Tick: 100}, &Holder{Token: "2", Owner: "c", Fence: 2, Tick: 100}), Ends: 100}
	table.Enter(&Waiter{Want: Want{Token: "of c", Owner: "c"}, Lock: first, Seq: 7, End: 50})
	if circle := table.Circle(first, 10); circle == nil || circle.Waiter.Owner != "c" {
		t.Errorf("%+v", circle)
	}
	table, k = letters(2)
	k.held[Name{0, "k1"}] = Holding{Held: true, Many: NewMany(Shared,
		&Holder{Token: "2", Owner: "c", Fence: 1, Tick: 100}, &Holder{Token: "1", Owner: "b", Fence: 2, Tick: 100}), Ends: 100}
	table.Enter(&Waiter{Want: Want{Token: "of c", Owner: "c"}, Lock: first, Seq: 7, End: 50})
	if circle := table.Circle(first, 10); circle == nil || circle.Waiter.Owner != "c" {
		t.Errorf("in the other order: %+v", circle)
	}
}

// A waiter that is passed over, whose token has got the lock by another request, closes no circle: neither with itself,
// nor through a lock whose other holders wait for its owner. Its owner may wait for something else.
func TestCircleOfOneThatIsServed(t *testing.T) {
	twice := func(held Holding, owner string) *Table {
		line := NewLine()
		asked := &Waiter{Want: Want{Token: "a", Owner: owner, Mode: Exclusive}, Lock: first, Seq: 1, End: 50}
		line.Enter(asked)
		line.PassOver(asked)
		line.Enter(&Waiter{Want: Want{Token: "b"}, Lock: first, Seq: 2, End: 50})
		return &Table{Line: &line, Keys: &keys{map[Name]Holding{first: held}, map[Name]bool{}}}
	}
	table := twice(Holding{Held: true, Token: "a", Ends: 100}, "")
	if turn := table.Turn(first, 10, 10, true); turn.Action != Rest {
		t.Errorf("the next in line: %+v", turn)
	}
	table = twice(Holding{Held: true, Many: NewMany(Shared, &Holder{Token: "a", Fence: 1, Tick: 100}), Ends: 100}, "")
	if circle := table.Circle(first, 10); circle != nil || table.Looked != 3 { // a lock, a holder, and the lock again
		t.Errorf("one of many: %+v, %d looks", circle, table.Looked)
	}
	table = twice(Holding{Held: true, Token: "of the same owner", Owner: "o", Ends: 100}, "o")
	if circle := table.Circle(first, 10); circle == nil || circle.Waiter.Token != "a" {
		t.Errorf("another token of the owner: %+v", circle)
	}
	for _, waits := range []bool{false, true} {
		table, k := letters(2)
		own := table.Waiter(Name{0, "k1"}, "token of a")
		table.Leave(own)
		if waits {
			table.Enter(own)
		}
		again := &Waiter{Want: own.Want, Lock: first, Seq: 7, End: 50}
		table.Enter(again)
		table.PassOver(again)
		if circle := table.Circle(Name{0, "k0"}, 10); (circle != nil) != waits {
			t.Errorf("it waits for k1 %v: %+v, %+v", waits, circle, k.held)
		}
	}
}

func tell(c *Circle) string {
	owner, holds, waits, through := c.Tell()
	return fmt.Sprintf("%s holds %s and waits for %s%s", owner, holds, waits, through)
}

func TestTell(t *testing.T) {
	for n, want := range map[int]string{
		1:  "a holds k0 and waits for k0",
		2:  "b holds k1 and waits for k0, held by a, which waits for k1",
		3:  "c holds k2 and waits for k0, held by a, which waits for k1, held by b, which waits for k2",
		9:  "i holds k8 and waits for k0" + told(0, 8),
		10: "j holds k9 and waits for k0" + told(0, 4) + ", ..." + told(5, 9),
		12: "l holds k11 and waits for k0" + told(0, 4) + ", ..." + told(7, 11),
	} {
		table, _ := letters(n)
		if have := tell(table.Circle(first, 10)); have != want {
			t.Errorf("%d owners:\n%s, not\n%s", n, have, want)
		}
	}
}

// told is what Tell says of some owners of letters.
func told(from, until int) (text string) {
	for i := from; i < until; i++ {
		text += fmt.Sprintf(", held by %c, which waits for k%d", 'a'+i, i+1)
	}
	return text
}

// A long name is cut. Of a token without an owner only the beginning is told.
func TestTellShort(t *testing.T) {
	long := strings.Repeat("ü", nameCharsMax)
	table, k := ring(2, func(i int) string { return []string{long, long + "y"}[i] }, func(i int) string { return []string{long, long + "y"}[i] })
	want := long + "... holds " + long + "... and waits for " + long + ", held by " + long + ", which waits for " + long + "..."
	if have := tell(table.Circle(Name{0, long}, 10)); have != want {
		t.Error(have)
	}
	k.held, *table.Line = map[Name]Holding{}, NewLine()
	for i, token := range []string{"12345678", "123456789"} {
		k.held[Name{0, fmt.Sprint("k", i)}] = Holding{Held: true, Token: token, Ends: 100}
		table.Enter(&Waiter{Want: Want{Token: token}, Lock: Name{0, fmt.Sprint("k", 1-i)}, Seq: uint64(i), End: 50})
	}
	if have := tell(table.Circle(first, 10)); have != "12345678... holds k1 and waits for k0, held by 12345678, which waits for k1" {
		t.Error(have)
	}
}
