package group

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"

	"github.com/hashicorp/go-hclog"

	"lockd/internal/loglimit"
)

// raftLog passes Raft's lines to slog at the level of debugging, since lockd logs its own lines for the operator.
// Errors are shown, each text once a minute: Raft repeats them several times a second while a peer is away.
type raftLog struct {
	hclog.Logger // methods that are not overridden do nothing
	prefix       string
	log          *slog.Logger
	args         []any
	errors       *loglimit.Limiter // by text
}

// NewLog returns a log for Raft, or for one of its stores, whose lines begin with prefix.
func NewLog(prefix string, log *slog.Logger) hclog.Logger {
	return &raftLog{Logger: hclog.NewNullLogger(), prefix: prefix, log: log, errors: &loglimit.Limiter{}}
}

func (l *raftLog) logLine(level slog.Level, msg string, args []any) {
	l.log.Log(context.Background(), level, l.prefix+msg, append(l.args[:len(l.args):len(l.args)], args...)...)
}

// Log implements hclog.Logger.
func (l *raftLog) Log(level hclog.Level, msg string, args ...any) {
	if level >= hclog.Error {
		l.Error(msg, args...)
		return
	}
	l.logLine(slog.LevelDebug, msg, args)
}

// Trace implements hclog.Logger.
func (l *raftLog) Trace(string, ...any) {}

// Debug implements hclog.Logger.
func (l *raftLog) Debug(msg string, args ...any) { l.logLine(slog.LevelDebug, msg, args) }

// Info implements hclog.Logger.
func (l *raftLog) Info(msg string, args ...any) { l.logLine(slog.LevelDebug, msg, args) }

// Warn implements hclog.Logger.
func (l *raftLog) Warn(msg string, args ...any) { l.logLine(slog.LevelDebug, msg, args) }

// Error implements hclog.Logger. A connection that this node has closed is no error: a node that stops closes
// connections that Raft still reads.
func (l *raftLog) Error(msg string, args ...any) {
	level := slog.LevelDebug
	if !slices.ContainsFunc(args, isClosed) {
		if _, ok := l.errors.Allow(msg); ok {
			level = slog.LevelInfo
		}
	}
	l.logLine(level, msg, args)
}

func isClosed(arg any) bool {
	err, _ := arg.(error)
	return errors.Is(err, net.ErrClosed)
}

// With implements hclog.Logger.
func (l *raftLog) With(args ...any) hclog.Logger {
	next := *l
	next.args = append(l.args[:len(l.args):len(l.args)], args...)
	return &next
}

// Named implements hclog.Logger.
func (l *raftLog) Named(string) hclog.Logger { return l }

// ResetNamed implements hclog.Logger.
func (l *raftLog) ResetNamed(string) hclog.Logger { return l }

// GetLevel implements hclog.Logger.
func (l *raftLog) GetLevel() hclog.Level { return hclog.Debug }

// IsDebug implements hclog.Logger.
func (l *raftLog) IsDebug() bool { return l.log.Enabled(context.Background(), slog.LevelDebug) }

// StandardWriter implements hclog.Logger.
func (l *raftLog) StandardWriter(*hclog.StandardLoggerOptions) io.Writer { return io.Discard }
