package value

import (
	"strconv"
	"testing"
)

// Positions are in images and in the hands of clients: they can never change.
func TestPositionsNeverChange(t *testing.T) {
	for key, want := range map[string]uint64{
		"": 4164554358272899, "lock": 1989352702222956, "a": 4178243202683290, "\x00\xff": 633902719547322,
	} {
		if got := Position(key); got != want || got >= 1<<53 {
			t.Errorf("%q: %d, want %d", key, got, want)
		}
	}
}

// Keys that share a position come in one step: a cursor cannot stand between them.
func TestScanKeepsCollisionsTogether(t *testing.T) {
	tr := newTree[int]()
	for i := range 20 {
		tr.b.Set(leaf[int]{pos: uint64(5 + i/10), key: strconv.Itoa(i), val: i})
	}
	n := 0
	next := tr.scan(0, 3, func(string, int) { n++ })
	if n != 10 || next != 6 {
		t.Errorf("%d items, next %d", n, next)
	}
	if next = tr.scan(next, 3, func(string, int) { n++ }); n != 20 || next != 0 {
		t.Errorf("%d items, next %d", n, next)
	}
}
