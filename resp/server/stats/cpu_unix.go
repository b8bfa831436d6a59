//go:build unix

package stats

import (
	"syscall"

	"lockd/resp"
)

// CPUSection returns INFO's section CPU.
func CPUSection() resp.Section {
	var l Lines
	for _, who := range []struct {
		kind   int
		suffix string
	}{{syscall.RUSAGE_SELF, ""}, {syscall.RUSAGE_CHILDREN, "_children"}} {
		var u syscall.Rusage
		if syscall.Getrusage(who.kind, &u) == nil {
			l.Text("used_cpu_sys"+who.suffix, seconds(u.Stime))
			l.Text("used_cpu_user"+who.suffix, seconds(u.Utime))
		}
	}
	return resp.Section{Name: "CPU", Fields: l}
}

func seconds(t syscall.Timeval) string { return decimals(float64(t.Sec)+float64(t.Usec)/1e6, 6) }
