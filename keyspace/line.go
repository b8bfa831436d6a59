package keyspace

import (
	"lockd/keyspace/value"
	"lockd/resp"
)

// lockLine is what those in line for a lock wait for: a key that may hold a string, as it holds nothing.
var lockLine = &value.Kind{Name: "string", Image: value.KindString}

// lineWork is the work of looking whether somebody waits for a lock.
const lineWork = 2 * value.FindWork

// lineKey is a lock that somebody waits for, lineToken one who does.
type (
	lineKey struct {
		db  int
		key string
	}
	lineToken struct {
		lineKey
		token string
	}
)

func (w *waiter) line() lineKey        { return lineKey{w.db, w.keys[0]} }
func (w *waiter) lineToken() lineToken { return lineToken{w.line(), w.token} }

// enterLine and leaveLine keep what is derived of those in line.
func (b *blocked) enterLine(w *waiter) {
	b.lines[w.line()]++
	b.tokens[w.lineToken()] = w
}

func (b *blocked) leaveLine(w *waiter) {
	delete(b.tokens, w.lineToken())
	if b.lines[w.line()]--; b.lines[w.line()] == 0 {
		delete(b.lines, w.line())
	}
}

// noteFreed marks a lock that somebody waits for, because its key has gone, or holds what is no lock.
func (m *Machine) noteFreed(db int, key string) {
	if len(m.blocked.lines) == 0 {
		return
	}
	m.spend(lineWork)
	if m.blocked.lines[lineKey{db, key}] > 0 {
		m.markReady(readyKey{db, key, lockLine})
	}
}

// noteAllFreed marks the locks of a database whose content was replaced.
func (m *Machine) noteAllFreed(db int) {
	for _, key := range m.linesOf(db) {
		if e, ok := m.dbs[db].keys.get(key); !ok || e.agg() != nil {
			m.noteFreed(db, key)
		}
	}
}

// linesOf lists the keys of a database that somebody stands in line for, in their order.
func (m *Machine) linesOf(db int) (keys []string) {
	if len(m.blocked.lines) == 0 {
		return nil
	}
	m.spend((value.VisitWork + value.TreeWork(m.dbs[db].keys.len())) * int64(m.blocked.places.Len()))
	m.blocked.places.Ascend(waitPlace{db: db}, func(p waitPlace) bool {
		if p.db == db && p.kind == lockLine.Image && (len(keys) == 0 || keys[len(keys)-1] != p.key) {
			keys = append(keys, p.key)
		}
		return p.db == db
	})
	return keys
}

// sweepLines ends the leases that are over of keys that somebody stands in line for, however many: or
// else a command of this entry might find one of them over, and take the lock before those in line.
func (m *Machine) sweepLines(at resp.Stamp) {
	for db := range m.dbs {
		for _, key := range m.linesOf(db) {
			if e, ok := m.dbs[db].keys.get(key); ok && m.expired(e) {
				m.expireLock(at, db, e)
			}
		}
	}
}

// expireLock ends a lease, and gives the key to the first in line.
func (m *Machine) expireLock(at resp.Stamp, db int, e *entry) {
	k := readyKey{db, e.key(), lockLine}
	m.expire(db, e)
	if _, waits := m.readySet[k]; waits {
		m.unmarkReady()
		m.serveLine(at, k, e.deadline.tick+1)
	}
}

// serveLine gives a lock that is free since a tick to the first in line. Whose time was over before
// that gets nothing. Nobody waits any longer for what is no lock.
func (m *Machine) serveLine(at resp.Stamp, k readyKey, freed int64) {
	m.serving = true
	defer func() { m.serving = false }()
	c := &ctx{m: m, at: at, db: k.db}
	for w := m.blocked.next(k, 0); w != nil; w = m.blocked.next(k, w.seq) {
		e := c.lookup(k.key)
		switch {
		case e != nil && e.agg() != nil:
			m.endWait(w, resp.BlockServed, resp.Err(resp.ErrWrongType))
		case e != nil:
			return
		case w.end < freed:
			m.endWait(w, resp.BlockTimedOut, resp.Reply{})
		default:
			m.serve(c, w, k.key)
		}
	}
}

// granted is the version of a lock that its client has only now, for the case that it is not there
// any more; nil where the command was no LOCK or has got nothing.
func (m *Machine) granted(db int, p *pending, reply resp.Reply) *resp.Watch {
	if p.kind != lockLine || reply.Kind != resp.KindInt {
		return nil
	}
	return &resp.Watch{DB: db, Key: p.keys[0], Version: m.version(db, p.keys[0])}
}
