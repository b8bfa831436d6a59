package sim

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"syscall"

	"lockd/cluster"
	"lockd/clustertest"
	"lockd/internal/process"
	"lockd/resp/server"
)

// Environment variables, as in package lockd/resp/fault.
const (
	controlVar = "LOCKD_FAULT_LISTEN" // address of the fault port
	fullVar    = "LOCKD_FAULT_FULL"   // a file: while it exists, the disk has no space
)

// proc is a process of a node.
type proc struct {
	*clustertest.Process
	world   *world
	machine string
	control string // address of the fault port; "": it has none
	log     *log
	from    int64         // offset of its output in the log
	exited  chan struct{} // closed when status and code say how it has ended
	status  string
	code    int
}

// flagsOf returns the flags of a command line, by their names; one that has no value has "". What belongs to no flag is
// under "".
func flagsOf(args []string) map[string]string {
	flags := map[string]string{}
	for i := 1; i < len(args); i++ {
		name, isFlag := strings.CutPrefix(args[i], "--")
		switch {
		case !isFlag:
			flags[""] = args[i]
		case i+1 < len(args) && !strings.HasPrefix(args[i+1], "--"):
			i++
			flags[name] = args[i]
		default:
			flags[name] = ""
		}
	}
	return flags
}

// machineOf returns the machine of a name on which a node runs that has such flags.
func machineOf(name string, flags map[string]string, l *log) clustertest.Machine {
	var members map[string]string // nil: it joins
	if list := flags["cluster"]; list != "" {
		members = map[string]string{}
		for _, m := range strings.Split(list, ",") {
			id, addr, _ := strings.Cut(m, "=")
			members[id] = addr
		}
	}
	return clustertest.Machine{
		ID: name, PeerAddr: flags["peer-listen"], ClientAddr: flags["listen"], Members: members,
		Join: flags["join"],
		Log:  slog.New(slog.NewTextHandler(l, nil)),
		Tune: func(c *cluster.Config) {
			c.ID, c.PeerAdvertise, c.ClientAddrs = flags["id"], flags["peer-advertise"], []string{flags["advertise"]}
			c.Join = flags["join"] != "" // else it has a list of members, or is alone
			c.Info = nil                 // INFO would make all sections each time, and spend a tenth of the processor on them
			c.Faults.Told = func(act, point string) {
				if act != "slow" { // it strikes each time
					fmt.Fprintf(l, "fault: %s at %s\n", act, point)
				}
			}
		},
		Front: func(c *server.Config) { c.Node = flags["id"] },
	}
}

// newProc starts a process.
func newProc(w *world, c process.Command) (*proc, error) {
	flags, l := flagsOf(c.Args), w.logOf(c.Log)
	p := &proc{world: w, machine: flags["id"], log: l, from: l.size(), exited: make(chan struct{})}
	env := map[string]string{}
	for _, e := range c.Env {
		name, value, _ := strings.Cut(e, "=")
		env[name] = value
	}
	p.control = env[controlVar]
	if p.control == "" {
		p.machine = flags["dir"] // a node with the id may run beside it
	}
	fmt.Fprintln(l, c.Heading)
	if err := w.add(machineOf(p.machine, flags, l), flags["dir"], p.control); err != nil {
		return nil, err
	}
	w.looks(p.machine, env[fullVar])
	var err error
	if p.Process, err = w.machines.Launch(p.machine); err != nil {
		return nil, err
	}
	if p.control != "" {
		if faults, err := w.machines.Network().From(p.control).Listen(p.control); err == nil {
			w.serving.Go(func() { p.obeyAll(faults) })
		}
	}
	w.serving.Go(p.follow)
	return p, nil
}

// follow waits for the end of the process, and says what a real one would have said.
func (p *proc) follow() {
	<-p.Process.Ended()
	p.world.machines.Network().Kill(p.control)
	switch how, why := p.Process.Exit(); how {
	case clustertest.Stopped:
		p.status, p.code = "exit status 0", 0
	case clustertest.Failed:
		slog.New(slog.NewTextHandler(p.log, nil)).Error("lockd stops", "why", why)
		p.status, p.code = "exit status 1", 1
	case clustertest.Refused:
		fmt.Fprintf(p.log, "lockd: %v\n", why)
		p.status, p.code = "exit status 2", 2
	default:
		p.status, p.code = "signal: killed", -1
	}
	close(p.exited)
}

// Ended implements target.Process.
func (p *proc) Ended() <-chan struct{} { return p.exited }

// Exit implements target.Process.
func (p *proc) Exit() (status string, code int) {
	<-p.exited
	return p.status, p.code
}

// Signal implements target.Process.
func (p *proc) Signal(sig syscall.Signal) {
	switch sig {
	case syscall.SIGKILL:
		p.Kill()
	case syscall.SIGTERM:
		p.world.serving.Go(func() { _ = p.Stop(context.Background()) }) // Exit tells how it ends
	}
}

// Pause implements target.Process.
func (p *proc) Pause() { _ = p.world.machines.Pause(p.machine) } // there is such a machine

// Resume implements target.Process.
func (p *proc) Resume() { _ = p.world.machines.Resume(p.machine) } // there is such a machine

// PID implements target.Process: there is none.
func (p *proc) PID() int { return 0 }

// Output implements target.Process.
func (p *proc) Output() string { return p.log.from(p.from) }

// LastLines implements target.Process.
func (p *proc) LastLines(n int) []string {
	lines := strings.Split(strings.TrimRight(p.Output(), "\n"), "\n")
	return lines[max(0, len(lines)-n):]
}
