// Package crash is for tests only: it runs a test again in a process of its own, which is killed, or dies at a fault
// point of a test build, and reports how far it had come.
package crash

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// The environment variables that tell a test that it is the process to die.
const (
	DirEnv  = "LOCKD_TEST_CRASH_DIR"      // the folder that it works on
	KindEnv = "LOCKD_TEST_CRASH_DIR_KIND" // Once's kind
)

// Once runs this test again as a process of its own with DirEnv and KindEnv set, which prints "started" and then
// "acked N." for each N that it acknowledges. Once calls kill after the start, and returns the last N, 0 if there was
// none.
func Once(t *testing.T, dir, kind string, kill func(*os.Process)) uint64 {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	cmd := exec.Command(os.Args[0], "-test.run=^"+name+"$")
	cmd.Env = append(os.Environ(), DirEnv+"="+dir, KindEnv+"="+kind)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	acked := make(chan uint64, 1)
	started := make(chan struct{})
	go func() {
		var last uint64
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			var n uint64
			if lines.Text() == "started" {
				close(started)
			} else if k, err := fmt.Sscanf(lines.Text(), "acked %d.", &n); k == 1 && err == nil {
				last = n
			} else {
				t.Errorf("the process said %q", lines.Text())
			}
		}
		acked <- last
	}()
	select {
	case <-started:
	case <-time.After(time.Minute):
		t.Error("the process did not start")
	}
	kill(cmd.Process)
	last := <-acked
	_ = cmd.Wait()
	return last
}
