package sim

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// controlVar is the environment variable with the address of the fault port, as in package lockd/resp/fault.
const controlVar = "LOCKD_FAULT_LISTEN"

// obeyAll serves the fault port, which speaks as that of a test build does.
func (p *proc) obeyAll(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		p.serving.Go(func() {
			defer conn.Close()
			for lines := bufio.NewScanner(conn); lines.Scan(); {
				answer := "ok"
				if more, err := p.obey(strings.Fields(lines.Text())); err != nil {
					answer = "error " + err.Error()
				} else if more != "" {
					answer += " " + more
				}
				if _, err := fmt.Fprintln(conn, answer); err != nil {
					return
				}
			}
		})
	}
}

// obey carries out one command.
func (p *proc) obey(words []string) (string, error) {
	words = append(words, "", "", "", "", "")
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(words[i], 10, 64) // absent: 0
		return n
	}
	switch words[0] {
	case "stat", "stacks":
	case "reset":
		p.machine.clock.reset()
		p.world.diskOf(p.disk).slow(p.world.traits.sync)
	case "clock":
		p.machine.clock.set(time.Duration(number(1))*time.Millisecond, float64(number(2)))
	case "die":
		go p.kill(words[1] != "kill") // the answer may still be sent
	case "arm":
		return "", p.arm(words[1], words[2], time.Duration(number(3))*time.Millisecond)
	default:
		return "", fmt.Errorf("unknown command %q", words[0])
	}
	return "", nil
}

// arm makes the disk slow. Other strikes cannot be armed here.
func (p *proc) arm(point, act string, most time.Duration) error {
	if point != "log.sync" || act != "slow" {
		return fmt.Errorf("%s at %s cannot be armed on a simulated machine", act, point)
	}
	p.world.diskOf(p.disk).slow(p.world.traits.sync + most)
	return nil
}
