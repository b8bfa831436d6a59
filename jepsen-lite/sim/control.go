package sim

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"lockd/clustertest"
)

// obeyAll serves the fault port, which speaks as that of a test build does.
func (p *proc) obeyAll(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		p.world.serving.Go(func() {
			defer conn.Close()
			for lines := bufio.NewScanner(conn); lines.Scan(); {
				answer := "ok"
				if err := p.obey(strings.Fields(lines.Text())); err != nil {
					answer = "error " + err.Error()
				}
				if _, err := fmt.Fprintln(conn, answer); err != nil {
					return
				}
			}
		})
	}
}

// obey carries out one command.
func (p *proc) obey(words []string) error {
	words = append(words, "", "", "", "", "")
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(words[i], 10, 64) // absent: 0
		return n
	}
	ms := func(i int) time.Duration { return time.Duration(number(i)) * time.Millisecond }
	switch machines, clock := p.world.machines, p.world.machines.Clock(p.machine); words[0] {
	case "stat", "stacks": // there are no figures of one node
	case "arm":
		_, err := machines.Arm(p.machine, clustertest.Strike{Point: words[1], Act: words[2], Stall: ms(3), Skip: int(number(4))})
		return err
	case "reset":
		machines.Disarm(p.machine)
		clock.Right()
	case "clock":
		clock.Step(ms(1))
		clock.DriftWall(float64(number(2)) / 100)
	case "die":
		go p.die(words[1]) // the answer may still be sent
	default:
		return fmt.Errorf("unknown command %q", words[0])
	}
	return nil
}

// die ends the process.
func (p *proc) die(how string) {
	switch how {
	case "drop":
		_ = p.world.machines.LoseUnsynced(p.machine) // there is such a machine
	case "tear":
		_ = p.world.machines.LosePower(p.machine) // there is such a machine
	default:
		p.Kill()
	}
}
