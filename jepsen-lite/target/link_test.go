package target

import (
	"testing"
	"testing/synctest"
	"time"
)

// Shapes of several layers add up, and clearing one layer leaves the others.
func TestLayersAddUp(t *testing.T) {
	n := NewNet()
	partition, slow := n.Layer(), n.Layer()
	check := func(what string, want Shape) {
		t.Helper()
		if got, _ := n.Link("a", "b").state(); got != want {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	partition.Set("a", "b", Shape{Cut: true})
	slow.Set("a", "b", Shape{Delay: time.Second, BytesPerSecond: 9, BreakOneIn: 3})
	check("a partition, and slow", Shape{Cut: true, Delay: time.Second, BytesPerSecond: 9, BreakOneIn: 3})
	slow.Set("a", "b", Shape{Delay: time.Minute})
	check("slow in another way", Shape{Cut: true, Delay: time.Minute})
	slow.Clear()
	check("slow no more", Shape{Cut: true})
	n.Set("a", "b", Shape{Delay: time.Hour, Jitter: time.Second, BytesPerSecond: 5})
	slow.Set("a", "b", Shape{Delay: time.Minute, BytesPerSecond: 7})
	partition.Set("a", "b", Shape{})
	check("the partition heals", Shape{Delay: time.Hour + time.Minute, Jitter: time.Second, BytesPerSecond: 5})
	if other, _ := n.Link("b", "a").state(); other != (Shape{}) {
		t.Errorf("the other way: %+v", other)
	}
	n.Heal()
	check("all heals", Shape{})
}

// Bytes that wait at a cut pass as soon as the last layer that cuts is cleared, and no earlier.
func TestCutOfTwoLayers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNet()
		one, two := n.Layer(), n.Layer()
		one.Set("a", "b", Shape{Cut: true})
		two.Set("a", "b", Shape{Cut: true})
		passed := make(chan bool, 1)
		go func() { passed <- n.Link("a", "b").pass(1, nil) }()
		synctest.Wait() // it waits at the cut
		one.Clear()
		synctest.Wait()
		if len(passed) > 0 {
			t.Error("it passed a cut")
		}
		two.Clear()
		if !<-passed {
			t.Error("it did not pass")
		}
	})
}
