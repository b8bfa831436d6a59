package load

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// Machine describes the conditions of a measurement besides the servers.
type Machine struct {
	Cores  int    `json:"cores"`
	CPU    string `json:"cpu"`
	Memory string `json:"memory"`
	System string `json:"system"`
}

func (m Machine) String() string {
	return fmt.Sprintf("%d cores of %s, %s of memory, %s", m.Cores, m.CPU, m.Memory, m.System)
}

// ThisMachine describes the machine that runs the load; fields that the system does not provide are marked as
// unknown.
func ThisMachine() Machine {
	m := Machine{Cores: runtime.NumCPU(), CPU: runtime.GOARCH, Memory: "an unknown amount", System: runtime.GOOS}
	if cpu := ProcField("/proc/cpuinfo", "model name"); cpu != "" {
		m.CPU = cpu
	}
	var kb int
	if _, err := fmt.Sscanf(ProcField("/proc/meminfo", "MemTotal"), "%d kB", &kb); err == nil {
		m.Memory = fmt.Sprintf("%.1f GiB", float64(kb)/(1<<20))
	}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.System += " " + strings.TrimSpace(string(release))
	}
	return m
}

// ProcField is the first value of a name in a file of lines "name: value"; "": there is none.
func ProcField(path, name string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
