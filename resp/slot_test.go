package resp

import "testing"

// Slots are those of Redis 7.0.15 (asked of CLUSTER KEYSLOT). Only a first pair of
// braces with something in it counts.
func TestSlot(t *testing.T) {
	for key, want := range map[string]int{
		"": 0, "a": 15495, "foo": 12182, "123456789": 12739, "{a}b": 15495, "x{a}y{b}": 15495, "{}a": 10875, "{": 4092, "}{a}": 15495,
		"{a": 10276, "a}b{c": 13587, "{{a}}": 10276, "\x00\xff": 7920, "{\x00}x": 0,
	} {
		if got := Slot(key); got != want {
			t.Errorf("Slot(%q) = %d, want %d", key, got, want)
		}
	}
}
