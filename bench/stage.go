package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"time"

	"lockd/bench/load"
)

// traffic is the load of clients on some servers.
type traffic struct {
	workload string
	clients  int
	keys     int
	hasKeys  bool // an earlier load wrote them
	length   time.Duration
}

// valueSize is the size of the values of all loads, in bytes.
const valueSize = 20

// measure lets clients work at the leader.
func (s *stage) measure(ctx context.Context, nodes []*proc, l traffic) (load.Sample, error) {
	const name = "lockd"
	cfg := &load.Config{
		Target: []string{target(name, "redis", "?to=master", nodes)}, Workload: []string{l.workload},
		Clients:  []int{l.clients},
		Pipeline: 1, Time: l.length, Rounds: 1, Keys: l.keys, ValueSize: valueSize, KeepKeys: true, HasKeys: l.hasKeys,
	}
	report, err := cfg.Measure(ctx, s.progress)
	if err != nil {
		return load.Sample{}, err
	}
	sample, _ := report.Find(l.workload, l.clients, 1, name)
	return sample, nil
}

// show adds values below the table.
func (s *stage) show(name string, steps ...step) {
	s.series = append(s.series, series{name, steps})
}

// leader returns the leader of the nodes, after an election if necessary. The first node must be running.
func leader(ctx context.Context, nodes []*proc) (*proc, error) {
	var found *proc
	err := nodes[0].await(ctx, func(ctx context.Context) error {
		for _, p := range nodes {
			if role, err := load.Ask(ctx, p.addr, "ROLE"); err == nil && role[0] == "master" {
				found = p
				return nil
			}
		}
		return errors.New("no node leads")
	})
	return found, err
}

// figure returns an integer field of a section of INFO.
func figure(ctx context.Context, p *proc, section, name string) (int, error) {
	info, err := load.Info(ctx, p.addr, section)
	if err != nil {
		return 0, err
	}
	value, ok := info[name]
	if !ok {
		return 0, fmt.Errorf("INFO %s of %s has no %s", section, p.name, name)
	}
	return strconv.Atoi(value)
}

// rest waits while the servers return freed memory to the system and finish background work.
func (s *stage) rest(ctx context.Context) error { return pause(ctx, s.Rest) }

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// resident returns the resident memory of the process, in bytes.
func (p *proc) resident() (int, error) {
	text := load.ProcField(fmt.Sprintf("/proc/%d/status", p.PID()), "VmRSS")
	var kb int
	if _, err := fmt.Sscanf(text, "%d kB", &kb); err != nil {
		return 0, fmt.Errorf("the memory of %s is not in Linux's /proc: it has ended, or this is another system", p.name)
	}
	return kb << 10, nil
}

// disk returns the size of the process's files in bytes.
func (p *proc) disk() (int64, error) {
	var sum int64
	err := filepath.WalkDir(p.dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = e.Info(); err == nil {
				sum += info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it was trimmed just now
		}
		return err
	})
	return sum, err
}

// Files that this process, and each server, opens besides connections.
const filesBesides = 200

// unlimited is more files than any run needs.
const unlimited = 1 << 30

// needFiles fails if this many connections cannot be open. Only the hard limit counts: Go's runtime raises the soft
// limit to it, in lockd as here.
func needFiles(connections int) error {
	files, err := filesMax()
	if err != nil {
		return err
	}
	if need := connections + filesBesides; files < need {
		return fmt.Errorf("%d connections need %d open files, and the limit of this process (RLIMIT_NOFILE, ulimit "+
			"-Hn) is %d",
			connections, need, files)
	}
	return nil
}

const (
	kib = 1 << 10
	mib = 1 << 20
)
