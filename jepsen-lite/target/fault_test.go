package target

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"lockd/internal/fakenode"
)

// faulty makes a node whose process is a script and whose fault port is served by the test: each command that arrives
// there is sent to commands and answered with answer.
func faulty(t *testing.T, script, answer string) (l *lockd, n *lockdNode, commands chan string) {
	t.Helper()
	commands = make(chan string, 100)
	port := fakenode.Accept(t, func(conn net.Conn) {
		line, _ := bufio.NewReader(conn).ReadString('\n')
		commands <- strings.TrimSpace(line)
		_, _ = fmt.Fprintln(conn, answer)
	})
	p := shell(t, script)
	n = &lockdNode{faultAddr: port, addr: pong(t)}
	n.name, n.path, n.args, n.logPath = p.name, p.path, p.args, p.logPath
	t.Cleanup(n.kill)
	return newLockdOver(&fleet{names: []string{"n1"}, nodes: map[string]*lockdNode{"n1": n}}, nil), n, commands
}

// pong returns the address of a server that answers two PINGs on each connection.
func pong(t *testing.T) string {
	t.Helper()
	return fakenode.Accept(t, func(conn net.Conn) {
		for range 2 { // Dial asks, and then the caller
			_, _ = conn.Read(make([]byte, 100))
			_, _ = fmt.Fprint(conn, "+PONG\r\n")
		}
	})
}

// say appends a line to the log of a node.
func (n *lockdNode) say(t *testing.T, line string) {
	t.Helper()
	f, err := os.OpenFile(n.logPath, os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, _ = fmt.Fprintln(f, line)
}

// A point that is armed, never strikes, and is disarmed is nothing to report, and the node runs on.
func TestArmAndDisarm(t *testing.T) {
	l, n, commands := faulty(t, "sleep 60", "ok")
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
	a, err := l.Arm("n1", Strike{Point: LogSync, Act: ActStall, Stall: 500 * time.Millisecond, Skip: 3})
	if err != nil {
		t.Fatal(err)
	}
	l.Disarm(a)
	if got := []string{<-commands, <-commands}; got[0] != "arm log.sync stall 500 3" || got[1] != "reset" {
		t.Errorf("commands %q", got)
	}
	if deaths := l.Deaths(); len(deaths) > 0 || !n.running() {
		t.Errorf("deaths %q, running %v", deaths, n.running())
	}
}

// A node that goes on after its disk has failed is reported.
func TestGoingOnIsReported(t *testing.T) {
	l, n, _ := faulty(t, "sleep 60", "ok")
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
	a, err := l.Arm("n1", Strike{Point: LogSync, Act: ActError})
	if err != nil {
		t.Fatal(err)
	}
	n.say(t, "fault: error at log.sync")
	l.disarm(a, 50*time.Millisecond)
	if deaths := l.Deaths(); len(deaths) != 1 || !strings.Contains(deaths[0], `goes on after "fault: error at log.sync"`) {
		t.Errorf("deaths %q", deaths)
	}
}

// A strike that the node refuses is not expected.
func TestArmRefused(t *testing.T) {
	l, n, _ := faulty(t, "sleep 60", "error no such point or action")
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Arm("n1", Strike{Point: "x", Act: ActKill}); err == nil || !strings.Contains(err.Error(), "no such point") {
		t.Errorf("error %v", err)
	}
	if len(n.expected) > 0 {
		t.Errorf("expected %+v", n.expected)
	}
}

// The end of a node that obeys Die is not reported. A node that does not obey is reported and killed.
func TestDie(t *testing.T) {
	for obeys, want := range map[bool]int{true: 0, false: 1} {
		patience := 500 * time.Millisecond
		if obeys {
			patience = time.Minute
		}
		l, n, commands := faulty(t, "sleep 60", "ok")
		if err := n.start(); err != nil {
			t.Fatal(err)
		}
		go func() {
			<-commands
			if obeys {
				n.now.Signal(syscall.SIGKILL)
			}
		}()
		l.die("n1", ActDrop, patience)
		if deaths := l.Deaths(); len(deaths) != want || n.running() {
			t.Errorf("obeys %v: deaths %q, running %v", obeys, deaths, n.running())
		}
	}
}

// sluggish is a host of one process that answers each command late.
type sluggish struct{ thisMachine }

func (sluggish) LogSize(string) (int64, error) { return 0, nil }

func (sluggish) Dial(addr string, _ time.Duration) (net.Conn, error) {
	client, server := net.Pipe()
	go func() {
		for lines := bufio.NewScanner(server); lines.Scan(); {
			answer := map[string]string{"PING": "+PONG\r\n", "arm log.sync slow 5 0": "ok\n"}[strings.TrimSpace(lines.Text())]
			if answer == "" {
				continue
			}
			time.Sleep(100 * time.Millisecond)
			if _, err := fmt.Fprint(server, answer); err != nil {
				return
			}
		}
	}()
	return client, nil
}

// While a node that answers late is armed, virtual time moves on for those who ask for its id.
func TestOthersAskWhileANodeIsArmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &lockdNode{addr: "clients", faultAddr: "faults", id: "n1"}
		n.name, n.host, n.runs = "n1", sluggish{}, true
		l := newLockdOver(&fleet{names: []string{"n1"}, net: newNetOn(sluggish{}, nil), nodes: map[string]*lockdNode{"n1": n}}, nil)
		var armed sync.WaitGroup
		armed.Go(func() {
			if _, err := l.Arm("n1", Strike{Point: LogSync, Act: ActSlow, Stall: 5 * time.Millisecond}); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		if id := l.ID("n1"); id != "n1" {
			t.Errorf("its id is %q", id)
		}
		armed.Wait()
	})
}
