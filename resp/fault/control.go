//go:build faults

package fault

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"
)

// Serve opens the control port if the environment names one. It reads commands and writes answers, "ok ..." or "error
// ...", a line each:
//
//	arm POINT kill|drop|tear|error|full|stall [MS] [SKIP]   the point strikes once, after SKIP times
//	arm POINT slow MS [SKIP]                                from then on it waits each time, up to MS
//	reset                                                   nothing is armed, the clock is right
//	clock STEP_MS FAST_PERCENT                              the wall clock steps, and runs fast
//	die kill|drop|tear                                      the process dies now
//	stat                                                    ok goroutines N heap BYTES
//	stacks                                                  the stacks of all goroutines go to stderr
func Serve() error {
	addr := os.Getenv(listenVar)
	if addr == "" {
		return nil
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("%s: %w", listenVar, err)
	}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	return nil
}

func serve(conn net.Conn) {
	defer conn.Close()
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		answer := "ok"
		if more, err := obey(strings.Fields(lines.Text())); err != nil {
			answer = "error " + err.Error()
		} else if more != "" {
			answer += " " + more
		}
		if _, err := fmt.Fprintln(conn, answer); err != nil {
			return
		}
	}
}

// obey runs one command.
func obey(words []string) (string, error) {
	words = append(words, "", "", "", "", "")
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(words[i], 10, 64) // absent: 0
		return n
	}
	switch words[0] {
	case "arm":
		return "", arm(words[1], words[2], time.Duration(number(3))*time.Millisecond, int(number(4)))
	case "reset":
		reset()
	case "clock":
		setClock(number(1)*1000, float64(number(2))/100)
	case "die":
		go die(words[1]) // the answer may still be sent
	case "stat":
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return fmt.Sprintf("goroutines %d heap %d", runtime.NumGoroutine(), m.HeapAlloc), nil
	case "stacks":
		return "", pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
	default:
		return "", fmt.Errorf("unknown command %q", words[0])
	}
	return "", nil
}
