package clustertest

import (
	"testing"
	"testing/synctest"
	"time"
)

// Both clocks drift, the wall clock steps, and the monotonic one never goes back.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newClock(), &Process{}
		of := processClock{c, p, time.Now()}
		wall, ticks := of.Wall(), of.Monotonic()
		passed := func(wantWall, wantTicks time.Duration) {
			t.Helper()
			gotWall, gotTicks := time.Duration(of.Wall()-wall)*time.Microsecond, of.Monotonic()-ticks
			if (gotWall-wantWall).Abs() > time.Microsecond || (gotTicks-wantTicks).Abs() > time.Microsecond {
				t.Errorf("the wall clock went on by %s and the other by %s, want %s and %s",
					gotWall, gotTicks, wantWall, wantTicks)
			}
			wall, ticks = of.Wall(), of.Monotonic()
		}
		time.Sleep(time.Hour)
		passed(time.Hour, time.Hour)
		c.Step(-time.Minute)
		passed(-time.Minute, 0)
		c.Drift(DriftPromised)
		time.Sleep(10_000 * time.Second)
		passed(10_001*time.Second, 10_001*time.Second)
		c.DriftWall(-0.5)
		time.Sleep(10_000 * time.Second)
		passed(5000*time.Second, 10_001*time.Second)
		c.Right()
		if c.Ahead() != 0 || of.Monotonic()-ticks != 0 {
			t.Errorf("set right, it is ahead by %s; the monotonic clock went on by %s", c.Ahead(), of.Monotonic()-ticks)
		}
	})
}
