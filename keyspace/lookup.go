package keyspace

import "lockd/resp"

// lookupString finds a key that must hold a string, if it is there: e is nil where
// it is absent. Where ok is false the reply is the error.
func (c *ctx) lookupString(key string) (e *entry, fail resp.Reply, ok bool) {
	e = c.lookup(key)
	if e != nil && e.agg() != nil {
		return nil, resp.Err(resp.ErrWrongType), false
	}
	return e, resp.Reply{}, true
}

// lookupAs finds a key that must hold an aggregate of the type T, if it is there: v
// is nil where it is absent. It is for reading; see editAs. Where ok is false the
// reply is the error.
func lookupAs[T aggregate](c *ctx, key string) (v T, fail resp.Reply, ok bool) {
	e := c.lookup(key)
	if e == nil {
		return v, resp.Reply{}, true
	}
	if v, ok = e.agg().(T); !ok {
		return v, resp.Err(resp.ErrWrongType), false
	}
	return v, resp.Reply{}, true
}

// editAs lets edit change the aggregate at key, one that fresh makes where key is
// absent. The caller has made sure (lookupAs) that key holds nothing else. What is
// left empty is deleted, unless its kind keeps it; emptied says so, and the caller sends the event "del" after
// its own.
func editAs[T aggregate](c *ctx, key string, fresh func(owner uint64) T, edit func(v T)) (emptied bool) {
	was := c.lookup(key)
	var v T
	d := never
	if was == nil {
		v = fresh(c.m.generation)
	} else {
		v, d = was.agg().own(c.m.generation).(T), was.deadline
		if aggregate(v) != was.agg() {
			c.m.spend(cloneWork(v))
		}
	}
	form := v.form()
	edit(v)
	if v.form() != form {
		c.m.spend(int64(v.len())*treeWork(v.len()) + hashWork*v.size())
	}
	if v.len() > 0 || v.kind().keepsEmpty {
		c.m.store(c.db, key, was, newEntry(key, was, aggregateValue(v), d))
		return false
	}
	if was != nil {
		c.m.store(c.db, key, was, nil)
	}
	return was != nil
}

// lookupHash is lookupAs for hashes.
func (c *ctx) lookupHash(key string) (h *hash, fail resp.Reply, ok bool) {
	return lookupAs[*hash](c, key)
}

// editHash is editAs for hashes.
func (c *ctx) editHash(key string, edit func(h *hash)) (emptied bool) {
	return editAs(c, key, newHash, func(h *hash) {
		h.limit(c.m.settings.hashLimits())
		edit(h)
	})
}

// lookupList is lookupAs for lists.
func (c *ctx) lookupList(key string) (l *list, fail resp.Reply, ok bool) {
	return lookupAs[*list](c, key)
}

// editList is editAs for lists.
func (c *ctx) editList(key string, edit func(l *list)) (emptied bool) {
	return editAs(c, key, newList, func(l *list) {
		before := l.size()
		edit(l)
		l.resize(c.m.settings.listLimits(), l.size() < before)
	})
}

// lookupSet is lookupAs for sets.
func (c *ctx) lookupSet(key string) (s *set, fail resp.Reply, ok bool) {
	return lookupAs[*set](c, key)
}

// editSet is editAs for sets.
func (c *ctx) editSet(key string, edit func(s *set)) (emptied bool) {
	return editAs(c, key, newSet, func(s *set) {
		s.limit(c.m.settings.sets)
		edit(s)
	})
}

// lookupZset is lookupAs for sorted sets.
func (c *ctx) lookupZset(key string) (z *zset, fail resp.Reply, ok bool) {
	return lookupAs[*zset](c, key)
}

// editZset is editAs for sorted sets.
func (c *ctx) editZset(key string, edit func(z *zset)) (emptied bool) {
	return editAs(c, key, newZset, func(z *zset) {
		z.limit(c.m.settings.zsets)
		edit(z)
	})
}

// lookupStream is lookupAs for streams.
func (c *ctx) lookupStream(key string) (s *stream, fail resp.Reply, ok bool) {
	return lookupAs[*stream](c, key)
}

// editStream is editAs for streams.
func (c *ctx) editStream(key string, edit func(s *stream)) { editAs(c, key, newStream, edit) }
