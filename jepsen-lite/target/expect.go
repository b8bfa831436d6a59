package target

import (
	"slices"
	"strings"
	"time"
)

// End is a way in which a process may end by itself after a fault. An End is expected of one process, once. The process
// has ended that way only if its exit status and the end of its log say so; any other end is a death to report.
type End struct {
	Status   string // in the words of os.ProcessState
	Sentence string // in one of the last lines of the log
}

// Ends of a lockd node.
var (
	diskFailed = End{"exit status 1", "the disk cannot be trusted, this node stops: "}
	diskFilled = End{"exit status 1", "the disk is full, this node stops: "}
	// the log could not be repaired at the start
	diskFull      = End{"exit status 2", "no space left on device: the folder is in order"}
	folderDamaged = End{"exit status 2", "is damaged: "}
	folderCopied  = End{"exit status 1", "runs on a copy of its data folder"}
	tooOld        = End{"exit status 1", saysTooOld}
	tooOldAtStart = End{"exit status 2", saysTooOld} // its own snapshot is of that level
)

const saysTooOld = "is in force in this cluster, and this lockd can do level "

// lastLinesMax bounds how many of the last lines of a log are searched for the sentence of an End: an older line says
// nothing about how the process ended.
const lastLinesMax = 10

// is reports whether a process ended this way, by its status and the last lines of its log. A panic is never an expected
// end, whatever it says.
func (e *End) is(status string, last []string) bool {
	said := false
	for _, line := range last {
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") ||
			strings.HasPrefix(line, "goroutine ") {
			return false
		}
		said = said || strings.Contains(line, e.Sentence)
	}
	return said && status == e.Status
}

// reasonFirst tells why a process has ended, by all that it has written: first the line that says why, and then the last
// lines, which lead there.
func reasonFirst(output string, last []string) string {
	why := reasonIn(strings.Split(strings.TrimRight(output, "\n"), "\n"))
	if why == "" {
		return strings.Join(last, " | ")
	}
	before := slices.DeleteFunc(slices.Clone(last), func(line string) bool { return line == why })
	if len(before) == 0 {
		return why
	}
	return why + " | its last lines: " + strings.Join(before, " | ")
}

// reasonIn returns the line that says why a process has ended: the first panic, or with which error it has ended, or the
// last error that it has logged. It is "" if none does.
func reasonIn(lines []string) string {
	for _, word := range []string{"panic: ", "fatal error: "} {
		if i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, word) }); i >= 0 {
			return lines[i]
		}
	}
	if end := lines[len(lines)-1]; strings.HasPrefix(end, "lockd: ") && !strings.HasPrefix(end, "lockd: warning: ") {
		return end
	}
	for _, line := range slices.Backward(lines) {
		if strings.Contains(line, " level=ERROR ") {
			return line
		}
	}
	return ""
}

// expectation is an End that is expected of one process.
type expectation struct {
	end  *End          // nil if the process must not end
	gone chan struct{} // closed when the process has ended
	from int64         // offset in the log from which on the reason would be logged
}

// expect allows the present process to end in a way. ok is false if no process runs.
func (p *proc) expect(end *End) (x expectation, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	size, err := p.where().LogSize(p.logPath)
	if !p.runs || err != nil {
		return x, false
	}
	if end != nil {
		own := *end // a copy: the same end may be expected for two reasons, and taken back for one
		end = &own
		p.expected = append(p.expected, end)
	}
	return expectation{end, p.exited, size}, true
}

// forget takes an expectation back.
func (p *proc) forget(x expectation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = slices.DeleteFunc(p.expected, func(e *End) bool { return e == x.end })
}

// loggedSince reports whether the process has logged a line that ends with text since the expectation.
func (p *proc) loggedSince(x expectation, text string) bool {
	return strings.Contains(p.where().LogFrom(p.logPath, x.from), text+"\n")
}

// ended waits until the process of an expectation has ended, and reports whether it has within a time.
func (x expectation) ended(within time.Duration) bool {
	t := time.NewTimer(within)
	defer t.Stop()
	select {
	case <-x.gone:
		return true
	case <-t.C:
		return x.hasEnded()
	}
}

// hasEnded reports whether the process has ended.
func (x expectation) hasEnded() bool {
	select {
	case <-x.gone:
		return true
	default:
		return false
	}
}

// refused reports whether the last process refused a folder that was damaged or put back on purpose.
func (p *proc) refused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.runs && (p.met == &folderDamaged || p.met == &folderCopied)
}
