package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// terminal runs lockd in a pseudo terminal.
type terminal struct {
	t      *testing.T
	master *os.File
	screen *logBuffer // all that was written to it
	ended  chan error
}

// inTerminal starts lockd in a pseudo-terminal of 80x24.
func inTerminal(t *testing.T, environ []string, args ...string) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	v := &terminal{t: t, master: master, screen: &logBuffer{}, ended: make(chan error, 1)}
	v.resize(80, 24)
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(append(os.Environ(), environ...), runInTerminal+"=1", "TERM=xterm-256color", "LC_ALL=C.UTF-8")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		_, _ = io.Copy(v.screen, master)
		close(read)
	}()
	go func() { v.ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = master.Close()
		<-read
		if t.Failed() {
			t.Logf("the terminal:\n%s", v.picture())
		}
	})
	return v
}

func (v *terminal) resize(width, height uint16) {
	v.t.Helper()
	size := unix.Winsize{Col: width, Row: height}
	if err := unix.IoctlSetWinsize(int(v.master.Fd()), unix.TIOCSWINSZ, &size); err != nil {
		v.t.Fatal(err)
	}
}

// press types, and waits until the picture shows something.
func (v *terminal) press(keys, want string) {
	v.t.Helper()
	if _, err := v.master.WriteString(keys); err != nil {
		v.t.Fatal(err)
	}
	v.await(want)
}

func (v *terminal) await(want string) {
	v.t.Helper()
	eventually(v.t, startTimeout, fmt.Sprintf("the terminal shows %q", want), func() error {
		if !strings.Contains(v.picture(), want) {
			return errors.New("it does not")
		}
		return nil
	})
}

// sequence matches control sequences in the output of a program.
var sequence = regexp.MustCompile(`^\x1b(\[([0-9;?>=:]*)([@-~])|\][^\x07\x1b]*(\x07|\x1b\\)|[()].|[=>])`)

// picture returns the content of a terminal that moves its cursor, clears, and writes characters of one column.
func (v *terminal) picture() string {
	var lines [50][200]rune
	x, y := 0, 0
	for text := v.screen.String(); text != ""; {
		if m := sequence.FindStringSubmatch(text); m != nil {
			text = text[len(m[0]):]
			if m[3] == "H" {
				x, y = 0, 0
				if n, _ := fmt.Sscanf(m[2], "%d;%d", &y, &x); n == 2 {
					x, y = x-1, y-1
				}
			}
			if m[3] == "J" {
				clear(lines[:])
			}
			continue
		}
		r, size := utf8.DecodeRuneInString(text)
		text = text[size:]
		if y < len(lines) && x < len(lines[0]) && r >= ' ' {
			lines[y][x] = r
			x++
		}
	}
	var b strings.Builder
	for _, line := range lines {
		text := strings.TrimRight(strings.ReplaceAll(string(line[:]), "\x00", " "), " ")
		b.WriteString(text + "\n")
	}
	return strings.TrimRight(b.String(), "\n")
}

// In a terminal locks are seen, opened, and ended after a yes; another node is asked when one dies; and
// the terminal is left as it was.
func TestTopInATerminal(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 3, patient()...)
	var addrs []string
	for _, p := range cluster {
		addrs = append(addrs, p.addr)
	}
	c := cluster[2].client().Conn()
	for _, args := range [][]any{
		{"LOCK", "order:42", "7f3c9a12-5b0e", "PX", "600000", "OWNER", "billing"},
		{"LOCK", "z-evil\x1b]0;x\a", "token", "PX", "600000"}, // sorted below the other lock at equal age
	} {
		if err := c.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	v := inTerminal(t, []string{"NO_COLOR=1"}, "top", "--addr", strings.Join(addrs, ","), "--interval", "100ms")
	v.await("2 held")
	v.await(">order:42 ")
	v.await(`evil\x1b]0;x\a`)
	v.press("/order\r", "keys like order")
	v.await("1 held")
	v.press("\r", "taken by LOCK")
	v.resize(100, 30)
	eventually(t, startTimeout, "the last line moves down", func() error {
		if lines := strings.Split(v.picture(), "\n"); len(lines) != 30 || !strings.HasPrefix(lines[29], "esc back") {
			return fmt.Errorf("%d lines", len(lines))
		}
		return nil
	})
	v.press("\x1b", "enter open")
	v.press("x", "because")
	v.press("hangs\r", "[y/N]")
	v.press("n", "nothing was done")
	if n := c.Exists(t.Context(), "order:42").Val(); n != 1 {
		t.Error("a no was taken for a yes")
	}
	v.press("x", "because")
	v.press("hangs\r", "[y/N]")
	v.press("y", "has been taken from its holder")
	if n := c.Exists(t.Context(), "order:42").Val(); n != 0 {
		t.Error("the lock is still there")
	}
	asked := slices.IndexFunc(addrs, func(addr string) bool { return strings.Contains(v.picture(), "  "+addr+"  ") })
	if asked < 0 {
		t.Fatalf("no node is in the title:\n%s", v.picture())
	}
	cluster[asked].Kill() // most often the first, if it has always answered in time
	v.await(addrs[asked] + " does not answer any more: ")
	if _, err := v.master.WriteString("q"); err != nil {
		t.Fatal(err)
	}
	if err := <-v.ended; err != nil {
		t.Error(err)
	}
	eventually(t, startTimeout, "the terminal is as it was", func() error {
		if !strings.Contains(v.screen.String(), "\x1b[?1049l") {
			return errors.New("it shows the other screen")
		}
		return nil
	})
	all := v.screen.String()
	if colour := regexp.MustCompile(`\x1b\[([0-9]+;)*[349][0-8](;[0-9]+)*m`).FindString(all); colour != "" {
		t.Errorf("%q in spite of NO_COLOR", colour)
	}
	if strings.Contains(all, "\x1b]0;x") {
		t.Error("a name has set the title of the terminal")
	}
}
