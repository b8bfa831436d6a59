package settings

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"lockd/resp"
)

// Node has the settings of this node. CONFIG SET changes some of them until the process ends; the others are fixed.
// It is safe for concurrent use.
type Node struct {
	own   map[string]*setting
	fixed map[string]string
	level *slog.LevelVar
	seats func() int64
}

// NodeConfig has the settings with which a node begins.
type NodeConfig struct {
	Fixed       map[string]string // settings that cannot be changed, by name
	Protect     bool              // protected-mode
	PubSubCount string            // CountCluster or CountNode; "": CountCluster
	ClientsMax  int64             // maxclients of this node alone; 0: that of the cluster
	LogLevel    *slog.LevelVar    // nil: it cannot be changed
	SeatsMax    func() int64      // connections that the process has file descriptors for
}

// setting is a setting of this node that CONFIG SET can change, until the process ends.
type setting struct {
	value atomic.Pointer[string]
	words []string // allowed values; nil: it is maxclients, a number
	wrong string   // the error text for other values
	apply func(value string)
}

func (o *setting) set(value string) {
	o.value.Store(&value)
	if o.apply != nil {
		o.apply(value)
	}
}

// The names of the settings of the node.
const (
	protectedMode = "protected-mode"
	logLevel      = "loglevel"
	maxClients    = "maxclients" // the cluster's, unless the node has its own
	pubsubCount   = "pubsub-count"
)

// The values of pubsub-count: PUBSUB and PUBLISH count the subscribers of all nodes, or of this one.
const (
	CountCluster = "cluster"
	CountNode    = "node"
)

// logLevels maps Redis's levels. Redis's verbose is below notice; here both are info.
var logLevels = map[string]slog.Level{
	"debug": slog.LevelDebug, "verbose": slog.LevelInfo, "notice": slog.LevelInfo, "warning": slog.LevelWarn,
}

// NewNode returns the settings of a node.
func NewNode(cfg NodeConfig) *Node {
	protect := &setting{words: []string{"yes", "no"}, wrong: "argument must be 'yes' or 'no'"}
	protect.set(map[bool]string{true: "yes", false: "no"}[cfg.Protect])
	count := &setting{words: []string{CountCluster, CountNode},
		wrong: "argument(s) must be one of the following: cluster, node"}
	count.set(cmp.Or(cfg.PubSubCount, CountCluster))
	own := map[string]*setting{protectedMode: protect, pubsubCount: count}
	if v := cfg.LogLevel; v != nil {
		level := &setting{words: []string{"debug", "verbose", "notice", "warning"},
			wrong: "argument(s) must be one of the following: debug, verbose, notice, warning"}
		level.set(logWord(v.Level())) // v may be stricter than the word: it does not change
		level.apply = func(word string) { v.Set(logLevels[word]) }
		own[logLevel] = level
	}
	if cfg.ClientsMax > 0 {
		own[maxClients] = &setting{}
		own[maxClients].set(strconv.FormatInt(cfg.ClientsMax, 10))
	}
	return &Node{own: own, fixed: cfg.Fixed, level: cfg.LogLevel, seats: cfg.SeatsMax}
}

// logWord returns Redis's word for a level.
func logWord(level slog.Level) string {
	switch {
	case level < slog.LevelInfo:
		return "debug"
	case level < slog.LevelWarn:
		return "notice"
	}
	return "warning"
}

// SetLogLevel does as CONFIG SET loglevel, or nothing without NodeConfig.LogLevel. It is safe for concurrent use.
func (n *Node) SetLogLevel(level slog.Level) {
	if own := n.own[logLevel]; own != nil {
		own.set(logWord(level))
		n.level.Set(level) // which may be stricter than the word
	}
}

// ClientsMax returns maxclients of this node alone; 0: that of the cluster counts.
func (n *Node) ClientsMax() int64 {
	if own := n.own[maxClients]; own != nil {
		most, _ := resp.ParseInt(*own.value.Load()) // it was checked
		return most
	}
	return 0
}

// checkClientsMax returns what is wrong with a value for a node's own maxclients, or nil.
func (n *Node) checkClientsMax(value string) error {
	switch most, ok := resp.ParseInt(value); {
	case !ok:
		return resp.Error("argument couldn't be parsed into an integer")
	case most < 1 || most > 1<<32-1:
		return resp.Error("argument must be between 1 and 4294967295 inclusive")
	case most > n.seats():
		return resp.Error("The operating system is not able to handle the specified number of clients, try with " +
			strconv.FormatInt(n.seats(), 10))
	}
	return nil
}

// Protected reports whether protected-mode is on.
func (n *Node) Protected() bool { return *n.own[protectedMode].value.Load() == "yes" }

// CountsCluster reports whether PUBSUB and PUBLISH count the subscribers of all nodes.
func (n *Node) CountsCluster() bool { return *n.own[pubsubCount].value.Load() == CountCluster }

// RequirePass is the name of the password of the default user.
const RequirePass = "requirepass"

// Value returns the value of a setting of this node.
func (n *Node) Value(name string) (value string, ok bool) {
	if o := n.own[name]; o != nil {
		return *o.value.Load(), true
	}
	value, ok = n.fixed[name]
	return value, ok
}

// Names lists the settings of this node.
func (n *Node) Names() []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(n.fixed)), maps.Keys(n.own))
	slices.Sort(names)
	return slices.Compact(names)
}

// Set checks a value of CONFIG SET for one setting of this node. Nothing changes before change is called.
func (n *Node) Set(name, value string) (change func(), err error) {
	o := n.own[name]
	if o == nil {
		if old := n.fixed[name]; value != old { // setting the present value is allowed
			if name == RequirePass {
				return nil, resp.Error("the password of this node is that of its --requirepass or --requirepass-file: change it " +
					"there on all nodes, or give the default user one by ACL SETUSER")
			}
			return nil, resp.Error("can't set immutable config")
		}
		return func() {}, nil
	}
	value = strings.ToLower(value)
	if o.words == nil {
		err = n.checkClientsMax(value)
	} else if !slices.Contains(o.words, value) {
		err = resp.Error(o.wrong)
	}
	if err != nil {
		return nil, err
	}
	return func() { o.set(value) }, nil
}
