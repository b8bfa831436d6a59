package server

import (
	"log/slog"
	"net"
	"slices"
	"sync/atomic"
)

// ownSetting is a setting that belongs to this node and can be changed while it runs: by
// CONFIG SET, for this node and until it ends.
type ownSetting struct {
	value atomic.Pointer[string]
	words []string // that it may have
	wrong string   // what an error says of another one
	apply func(value string)
}

func (o *ownSetting) set(value string) {
	o.value.Store(&value)
	if o.apply != nil {
		o.apply(value)
	}
}

// The names of these settings.
const (
	protectedMode = "protected-mode"
	logLevel      = "loglevel"
)

// logLevels are Redis's words. verbose is more than notice there, and the same here.
var logLevels = map[string]slog.Level{
	"debug": slog.LevelDebug, "verbose": slog.LevelInfo, "notice": slog.LevelInfo, "warning": slog.LevelWarn,
}

func ownSettings(cfg *Config) map[string]*ownSetting {
	protect := &ownSetting{words: []string{"yes", "no"}, wrong: "argument must be 'yes' or 'no'"}
	protect.set(map[bool]string{true: "yes", false: "no"}[cfg.Protect])
	own := map[string]*ownSetting{protectedMode: protect}
	if v := cfg.LogLevel; v != nil {
		word := "warning"
		switch level := v.Level(); {
		case level < slog.LevelInfo:
			word = "debug"
		case level < slog.LevelWarn:
			word = "notice"
		}
		level := &ownSetting{words: []string{"debug", "verbose", "notice", "warning"},
			wrong: "argument(s) must be one of the following: debug, verbose, notice, warning"}
		level.set(word) // v may be stricter than the word: it stays
		level.apply = func(word string) { v.Set(logLevels[word]) }
		own[logLevel] = level
	}
	return own
}

// localValue finds a setting that belongs to this node.
func (s *Server) localValue(name string) (value string, ok bool) {
	if o := s.own[name]; o != nil {
		return *o.value.Load(), true
	}
	value, ok = s.local[name]
	return value, ok
}

// localNames lists them.
func (s *Server) localNames() []string {
	names := make([]string, 0, len(s.local)+len(s.own))
	for name := range s.local {
		names = append(names, name)
	}
	for name := range s.own {
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// setOwn is the part of CONFIG SET that is about one setting of this node. Nothing is
// changed before change is called.
func (s *Server) setOwn(name, value string) (change func(), why string) {
	o := s.own[name]
	if o == nil {
		if old := s.local[name]; value != old { // setting what is so anyway does no harm
			return nil, "can't set immutable config"
		}
		return func() {}, ""
	}
	if value = lower(value); !slices.Contains(o.words, value) {
		return nil, o.wrong
	}
	return func() { o.set(value) }, ""
}

// errProtected begins as in Redis, whose clients look for DENIED, and names lockd's ways out.
const errProtected = "DENIED Redis is running in protected mode because protected mode is enabled and no password " +
	"is set for the default user. " +
	"In this mode connections are only accepted from the loopback interface. " +
	"If you want to connect from external computers to lockd you may adopt one of the following solutions: " +
	"1) Just disable protected mode sending the command 'CONFIG SET protected-mode no' from the loopback interface " +
	"by connecting to lockd from the same host the server is running, however MAKE SURE lockd is not publicly " +
	"accessible from internet if you do so: it holds for this node until it is restarted. " +
	"2) Start each node with the '--protected-mode no' option, or protected-mode = \"no\" in its settings file. " +
	"3) Set up an authentication password: start all nodes with the same '--requirepass'. " +
	"NOTE: You only need to do one of the above things in order for the server to start accepting connections from " +
	"the outside."

// protects reports whether a client must not come in: it is of another machine, and
// nobody has said who may.
func (s *Server) protects(conn net.Conn) bool {
	if s.password != "" || *s.own[protectedMode].value.Load() != "yes" {
		return false
	}
	addr, ok := conn.RemoteAddr().(*net.TCPAddr)
	return ok && !addr.IP.IsLoopback()
}
