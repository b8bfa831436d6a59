package main

import (
	"bytes"
	"io"
	"log/slog"
	"strconv"
	"time"

	"lockd/internal/logwriter"
	"lockd/resp"
)

// logEndMax bounds the time in which an ending process writes the rest of its log.
const logEndMax = time.Second

// handler returns what makes lines of the log, from a level on.
func (f *logFlags) handler(w io.Writer, from slog.Leveler) slog.Handler {
	opts := &slog.HandlerOptions{Level: from}
	if f.LogFormat == "json" {
		return slog.NewJSONHandler(w, opts)
	}
	return slog.NewTextHandler(w, opts)
}

// logger returns a logger whose level can be changed.
func (f *logFlags) logger(w io.Writer) *slog.Logger {
	f.level = &slog.LevelVar{}
	f.level.Set(levelNamed(f.LogLevel))
	return slog.New(f.handler(w, f.level))
}

// openLog puts a writer that never waits before the log of a process that serves. It must be closed at the end.
func (f *logFlags) openLog(w io.Writer) *logwriter.Writer {
	f.writer = logwriter.New(w, f.dropNotice)
	return f.writer
}

// dropNotice returns the line that stands where others are missing.
func (f *logFlags) dropNotice(lines int) []byte {
	var line bytes.Buffer
	slog.New(f.handler(&line, slog.LevelDebug)).Warn("lines of the log are missing here: what reads this log did not "+
		"keep up, or it could not be written", "lines", lines)
	return line.Bytes()
}

// logDropped returns the number of dropped lines of the log.
func (f *logFlags) logDropped() uint64 {
	if f.writer == nil {
		return 0
	}
	return f.writer.Dropped()
}

// logSection returns the section log of INFO.
func (f *logFlags) logSection() resp.Section {
	return resp.Section{Name: "Stats", Fields: []resp.Field{
		{Name: "log_lines_dropped", Value: strconv.FormatUint(f.logDropped(), 10)},
	}}
}

// logMetrics returns the metrics of the log.
func (f *logFlags) logMetrics() []resp.Metric {
	return []resp.Metric{resp.CounterOf("lockd_log_lines_dropped_total", "Lines of the log that were dropped, since "+
		"what reads the log did not keep up, or it could not be written.", f.logDropped())}
}

// dies ends the process with a line in the log, which is waited for no longer than logEndMax.
func (f *logFlags) dies(log *slog.Logger, why error, exit func(status int)) {
	say := func() { log.Error("lockd stops", "why", why) }
	if f.writer == nil {
		say()
	} else {
		f.writer.Last(logEndMax, say)
	}
	exit(exitFault)
}
