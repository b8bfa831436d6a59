package fault

import (
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// What is armed in one set strikes there alone, once, after the times that it lets pass.
func TestSets(t *testing.T) {
	var died []string
	one, other := &Set{Die: func(how string) { died = append(died, how) }}, &Set{}
	struck, err := one.Arm(LogSync, ActError, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []error{nil, syscall.EIO, nil} {
		if err := one.At(LogSync); !errors.Is(err, want) {
			t.Errorf("time %d: %v, want %v", i, err, want)
		}
		if err := errors.Join(other.At(LogSync), one.At(LogWrite), (*Set)(nil).At(LogSync)); err != nil {
			t.Errorf("a point that is not armed: %v", err)
		}
	}
	<-struck
	if _, err := one.Arm(Applied, ActTear, 0, 0); err != nil || one.At(Applied) != nil || len(died) != 1 || died[0] != ActTear {
		t.Errorf("it died %q: %v", died, err)
	}
	if _, err := one.Arm("nowhere", ActKill, 0, 0); err == nil {
		t.Error("a point that does not exist was armed")
	}
	synctest.Test(t, func(t *testing.T) {
		if _, err := other.Arm(Propose, ActStall, time.Minute, 0); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := other.At(Propose); err != nil || time.Since(began) != time.Minute {
			t.Errorf("a stall of a minute: %v after %s", err, time.Since(began))
		}
		gone := make(chan struct{})
		third := &Set{Gone: gone, Draw: func(n int) int { return n - 1 }}
		_, err := third.Arm(LogSync, ActSlow, time.Minute, 0)
		began = time.Now()
		if err = errors.Join(err, third.At(LogSync)); err != nil || time.Since(began) != time.Minute {
			t.Errorf("a slow point: %v after %s", err, time.Since(began))
		}
		time.AfterFunc(time.Second, func() { close(gone) })
		began = time.Now()
		if err := third.At(LogSync); err != nil || time.Since(began) != time.Second {
			t.Errorf("a slow point of a node that ends: %v after %s", err, time.Since(began))
		}
	})
}
