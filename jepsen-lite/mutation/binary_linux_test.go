package mutation

import (
	"context"
	"os/exec"
	"testing"
	"time"
)

// A process that waits for ever is found by the processor time that it does not use, one that works is not.
func TestWhenIdle(t *testing.T) {
	for script, idle := range map[string]bool{"sleep 60": true, "while :; do :; done": false} {
		cmd := exec.Command("/bin/sh", "-c", script)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		found := make(chan bool)
		go func() {
			is := false
			most := 100 * time.Millisecond
			if !idle {
				most = time.Minute // a busy machine may leave it waiting for long; the other one ends at once
			}
			whenIdle(ctx, cmd.Process.Pid, most, func() { is = true })
			found <- is
		}()
		if !idle {
			was := processorTimes(cmd.Process.Pid)
			for processorTimes(cmd.Process.Pid) == was {
				time.Sleep(time.Millisecond)
			}
			cancel()
		}
		if is := <-found; is != idle {
			t.Errorf("%s: idle %v", script, is)
		}
		cancel()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}
