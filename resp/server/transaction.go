package server

import (
	"strings"

	"lockd/resp"
)

// transaction is the state of MULTI and WATCH: the commands queued since MULTI and the watched keys, which count as
// memory of the client.
type transaction struct {
	of       *client
	open     bool
	spoiled  bool // a command could not be queued: EXEC refuses
	cmds     batch
	size     int // bytes of the arguments
	kept     int // size plus the bytes of the structures that hold them
	watch    []resp.Watch
	watchLen int // bytes of the watched keys
}

// batch lists the commands of a transaction.
type batch []queued

type queued struct {
	of   *command
	args resp.Args

	denied string // the error if the user may no longer make the call; "": none
}

// begin opens the transaction.
func (t *transaction) begin() {
	t.open = true
	t.of.queued.Store(0)
}

// queue adds a command, whose name and arity are right, or returns why it cannot. A spoiled transaction stores nothing
// more: EXEC will refuse it.
func (t *transaction) queue(c *command, args resp.Args) (why string) {
	if t.spoiled {
		return ""
	}
	size, kept := argBytes(args)
	if len(t.cmds) >= transactionCmdsMax || t.size+size > transactionBytesMax {
		return "ERR the transaction is too large"
	}
	if err := t.of.Reserve(kept); err != nil {
		return err.Error()
	}
	t.cmds = append(t.cmds, queued{of: c, args: cloneArgs(args)})
	t.size += size
	t.kept += kept
	t.of.queued.Store(int32(len(t.cmds)))
	return ""
}

// argBytes returns the size of arguments, without and with the structures that hold them.
func argBytes(args resp.Args) (bytes, kept int) {
	for _, a := range args {
		bytes += len(a)
	}
	return bytes, bytes + memoryPerCommand + len(args)*memoryPerArg
}

// cloneArgs copies arguments to keep them: they alias the whole input buffer.
func cloneArgs(args resp.Args) resp.Args {
	all := strings.Join(args, "")
	kept := make(resp.Args, len(args))
	for i, a := range args {
		kept[i], all = all[:len(a)], all[len(a):]
	}
	return kept
}

// spoil makes EXEC refuse an open transaction.
func (t *transaction) spoil() { t.spoiled = t.open }

// context returns where a client calls a command, in the words of ACL LOG.
func (t *transaction) context() string {
	if t.open {
		return "multi"
	}
	return "toplevel"
}

// discard drops the commands and the watched keys.
func (t *transaction) discard() {
	t.of.Release(t.kept)
	t.of.queued.Store(-1)
	t.open, t.spoiled, t.cmds, t.size, t.kept = false, false, nil, 0, 0
	t.unwatch()
}

func (t *transaction) unwatch() {
	t.of.Release(t.watchLen + len(t.watch)*memoryPerWatch)
	t.watch, t.watchLen = nil, 0
}

// roomToWatch reports whether more keys may be watched, by their number and size.
func (t *transaction) roomToWatch(keys []string) bool {
	size := t.watchLen
	for _, key := range keys {
		size += len(key)
	}
	return len(t.watch)+len(keys) <= watchedKeysMax && size <= watchedBytesMax
}

// addWatched adds keys with their versions. A key that is already watched keeps its older version. After an error the
// keys before stay watched.
func (t *transaction) addWatched(db int, keys []string, versions []uint64) error {
	have := map[string]bool{}
	for _, w := range t.watch {
		have[w.Key] = have[w.Key] || w.DB == db
	}
	for i, key := range keys {
		if have[key] {
			continue
		}
		have[key] = true
		if err := t.of.Reserve(len(key) + memoryPerWatch); err != nil {
			return err
		}
		t.watchLen += len(key)
		t.watch = append(t.watch, resp.Watch{DB: db, Key: strings.Clone(key), Version: versions[i]})
	}
	return nil
}

// data lists the commands for the backend, each with its database: db at first, then as SELECT in the transaction
// says.
func (b batch) data(p *Profile, db int) []resp.Cmd {
	var cmds []resp.Cmd
	for _, q := range b {
		if q.denied != "" {
			continue
		}
		if q.of.act == nil {
			cmds = append(cmds, resp.Cmd{DB: db, Args: q.args, Spec: q.of.spec})
		} else if n, ok := q.selected(p); ok {
			db = n
		}
	}
	return cmds
}

// selected returns the database that a SELECT in the transaction selects.
func (q *queued) selected(p *Profile) (db int, ok bool) {
	if q.of.act == nil || !q.of.act.selects || q.denied != "" {
		return 0, false
	}
	db, err := p.parseDB(q.args[1])
	return db, err == nil
}

// runsInPlace reports whether the command has to run at its place in EXEC's array.
func (q *queued) runsInPlace(underHub bool) bool {
	return q.of.act != nil && (!q.of.act.asksBackend || underHub && q.of.act.countsSubscribers)
}
