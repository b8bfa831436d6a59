package workload

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Workers begin nothing as long as somebody wants silence, unless the run ends.
func TestQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		env := &Env{}
		env.Quiet(true)
		env.Quiet(true)
		began := time.Now()
		time.AfterFunc(time.Second, func() { env.Quiet(false) })
		time.AfterFunc(time.Minute, func() { env.Quiet(false) })
		c := NewClient(ctx, env, 0)
		c.Pace()
		if got := time.Since(began); got < time.Minute || got > time.Minute+quietLook {
			t.Errorf("it paced for %s", got)
		}
		c.Pace()
		env.Quiet(true)
		time.AfterFunc(time.Second, cancel)
		c.Pace()
		if ctx.Err() == nil {
			t.Error("it broke the silence")
		}
	})
}
