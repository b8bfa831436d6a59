package sim

import (
	"testing"
	"testing/synctest"
	"time"
)

// Bubble calls do in virtual time, and waits until all goroutines that it has started have ended. Time moves when all
// of them wait, and then at once. A panic in any of them, or a goroutine that waits for ever, ends the program.
//
// What do gives to outside runs in real time, while virtual time stands still: it may use nothing that belongs to the
// bubble and makes somebody wait.
//
// Virtual time is made for tests, which go test starts. Outside of one a test of no name takes its place: nothing is
// asked of it but to be the parent of the bubble (TestBubble holds that).
func Bubble(do func(outside func(func()))) {
	calls, done := make(chan func()), make(chan struct{})
	defer close(calls)
	go func() {
		for call := range calls {
			call()
			done <- struct{}{}
		}
	}()
	outside := func(call func()) {
		calls <- call
		<-done
	}
	synctest.Test(&testing.T{}, func(*testing.T) {
		do(outside)
		time.Sleep(restMax)
	})
}

// restMax is longer than anything sleeps that do leaves behind: time stands still when the function of a bubble has
// returned, and a goroutine that sleeps then waits for ever.
const restMax = time.Minute
