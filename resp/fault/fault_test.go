//go:build faults

package fault

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"lockd/internal/freeport"
)

// doomedEnv tells the test binary to be the process that dies.
const doomedEnv = "LOCKD_TEST_DOOMED"

func TestMain(m *testing.M) {
	if os.Getenv(doomedEnv) != "" {
		OnDie(func(how string) { fmt.Println("dying:", how) })
		if err := Serve(); err != nil {
			fmt.Println(err)
		}
		fmt.Println("started")
		for At(Applied) == nil {
			time.Sleep(time.Millisecond)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A peer is dialled by the way that the environment says, and at its own address if it says none.
func TestWays(t *testing.T) {
	t.Setenv(waysVar, "127.0.0.1:1=127.0.0.1:2,n2:1=n2:3")
	for addr, want := range map[string]string{"127.0.0.1:1": "127.0.0.1:2", "n2:1": "n2:3", "n3:1": "n3:1"} {
		if at := DialAddr(addr); at != want {
			t.Errorf("%s is dialled at %s, want %s", addr, at, want)
		}
	}
}

// An armed point strikes once, after the times it was told to let pass; others
// never do.
func TestFaultArm(t *testing.T) {
	defer reset()
	for act, want := range map[string]error{ActError: syscall.EIO, ActFull: syscall.ENOSPC} {
		if err := arm(LogSync, act, 0, 2); err != nil {
			t.Fatal(err)
		}
		for i, want := range []error{nil, nil, want, nil, nil} {
			if err := At(LogSync); !errors.Is(err, want) {
				t.Errorf("%s, time %d: %v", act, i, err)
			}
			if err := At(LogWrite); err != nil {
				t.Errorf("a point that is not armed: %v", err)
			}
		}
	}
	if err := arm(LogSync, ActError, 0, 0); err != nil {
		t.Fatal(err)
	}
	reset()
	if err := At(LogSync); err != nil {
		t.Errorf("after a reset: %v", err)
	}
	if arm("log.sing", ActError, 0, 0) == nil || arm(LogSync, "explode", 0, 0) == nil {
		t.Error("a point or an action that does not exist was armed")
	}
}

// A stalled operation waits and then goes well.
func TestFaultStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer reset()
		const stall = 30 * time.Millisecond
		if err := arm(Propose, ActStall, stall, 0); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := At(Propose); err != nil || time.Since(start) != stall {
			t.Errorf("%v after %s", err, time.Since(start))
		}
	})
}

// A slow operation waits each time, until a reset.
func TestFaultSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer reset()
		const most = 40 * time.Millisecond
		if err := arm(LogSync, ActSlow, most, 1); err != nil {
			t.Fatal(err)
		}
		for i, slow := range []bool{false, true, true, false} {
			if i == 3 {
				reset()
				if len(own.points) > 0 {
					t.Error("still slow after a reset")
				}
			}
			start := time.Now()
			err := At(LogSync)
			if took := time.Since(start); err != nil || took > most || slow && took < most/4 || !slow && took > 0 {
				t.Errorf("time %d: %v after %s", i, err, took)
			}
		}
	})
}

// As long as a file is there, whatever writes finds no space.
func TestFaultFull(t *testing.T) {
	file := filepath.Join(t.TempDir(), "full")
	t.Setenv(fullVar, file)
	if err := At(LogWrite); err != nil {
		t.Errorf("with space: %v", err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, point := range Points {
			writes := point == LogWrite || point == VoteWrite || point == SnapshotWrite
			if err := At(point); errors.Is(err, syscall.ENOSPC) != writes {
				t.Errorf("%s without space: %v", point, err)
			}
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := At(LogWrite); err != nil {
		t.Errorf("with space again: %v", err)
	}
}

// The wall clock steps and drifts, one step on top of the other, until a reset.
func TestFaultClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer reset()
		const hour = int64(3600 * 1000 * 1000)
		off := func(want int64) {
			t.Helper()
			if got := Wall(0); got != want {
				t.Errorf("off by %d µs, want %d", got, want)
			}
		}
		off(0)
		setClock(hour, 0)
		setClock(-hour/2, 10)
		off(hour / 2)
		time.Sleep(10 * time.Millisecond)
		off(hour/2 + 100_000) // ten times the speed too much
		setClock(0, 0)
		time.Sleep(time.Minute)
		off(hour/2 + 100_000)
		reset()
		off(0)
	})
}

// Each command gets one answer line: its result, or the reason why it failed.
func TestFaultControl(t *testing.T) {
	defer reset()
	addr := freeAddr(t)
	t.Setenv(listenVar, addr)
	if err := Serve(); err != nil {
		t.Fatal(err)
	}
	ask := dial(t, addr)
	for _, step := range []struct{ say, want string }{
		{"arm log.sync error 0 1", "ok"},
		{"arm log.sync burn", "error no such point or action"},
		{"arm nowhere kill", "error no such point or action"},
		{"clock 3600000 5", "ok"},
		{"dance", `error unknown command "dance"`},
		{"", `error unknown command ""`},
		{"stat", `ok goroutines \d+ heap \d+`},
	} {
		if got := ask(step.say); !regexp.MustCompile("^" + step.want + "$").MatchString(got) {
			t.Errorf("%q: %q, want %q", step.say, got, step.want)
		}
	}
	if Wall(0) < 3600*1000*1000 {
		t.Errorf("clock set it %d µs ahead", Wall(0))
	}
	if first, second := At(LogSync), At(LogSync); first != nil || second == nil {
		t.Errorf("armed for the second time: %v, %v", first, second)
	}
	if got := ask("reset"); got != "ok" || Wall(0) != 0 {
		t.Errorf("reset: %q, the clock is off by %d", got, Wall(0))
	}
	if err := Serve(); err == nil {
		t.Error("a second process could listen on the same address")
	}
}

// A process that is told to die, or comes to a point where it is to, does what was
// registered for that death, and is killed.
func TestFaultDie(t *testing.T) {
	for say, want := range map[string]string{
		"die drop": "dying: drop", "die kill": "dying: kill", "arm applied tear 0 3": "dying: tear", "arm applied error": "",
	} {
		addr := freeAddr(t)
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), doomedEnv+"=1", listenVar+"="+addr)
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		out := bufio.NewScanner(pipe)
		if out.Scan(); out.Text() != "started" {
			t.Errorf("%s: it began with %q", say, out.Text())
		}
		if got := dial(t, addr)(say); got != "ok" && got != "" { // it may die before it has answered
			t.Errorf("%s: %q", say, got)
		}
		if out.Scan(); out.Text() != want {
			t.Errorf("%s: it said %q, want %q", say, out.Text(), want)
		}
		err = cmd.Wait()
		status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if killed := status.Signaled() && status.Signal() == syscall.SIGKILL; killed != (want != "") {
			t.Errorf("%s: it ended with %v", say, err)
		}
	}
}

// dial connects to a control port and returns a function that sends a line and
// reads the answer.
func dial(t *testing.T, addr string) func(line string) string {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	answers := bufio.NewScanner(conn)
	return func(line string) string {
		fmt.Fprintln(conn, line)
		answers.Scan()
		return answers.Text()
	}
}

// freeAddr returns an address that no other program takes before the server does.
func freeAddr(t *testing.T) string {
	t.Helper()
	addrs, err := freeport.Addrs("127.0.0.1", 1)
	if err != nil {
		t.Fatal(err)
	}
	return addrs[0]
}
