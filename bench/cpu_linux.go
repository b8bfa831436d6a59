package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"lockd/bench/load"
)

// cpuTick is the unit of times in /proc/PID/stat, which on Linux is 1/100 s for programs on every machine.
const cpuTick = 10 * time.Millisecond

// Fields of /proc/PID/stat behind the name of the program, which ends with a bracket, counted from 0.
const (
	statUser   = 11 // utime
	statSystem = 12 // stime
)

// meter measures the processor time of processes, in user and in kernel mode.
func meter(procs []*proc) load.CPU {
	return func() (time.Duration, error) {
		var all time.Duration
		for _, p := range procs {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
			if err != nil {
				return 0, err
			}
			took, err := cpuOf(string(text))
			if err != nil {
				return 0, fmt.Errorf("%s: %w", p.name, err)
			}
			all += took
		}
		return all, nil
	}
}

func cpuOf(stat string) (time.Duration, error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) <= statSystem {
		return 0, fmt.Errorf("%q has no processor time", stat)
	}
	var ticks int64
	for _, field := range fields[statUser : statSystem+1] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * cpuTick, nil
}
