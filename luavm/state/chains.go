package state

import (
	"lockd/luavm/lauxlib"

	lua "github.com/yuin/gopher-lua"
)

// If __index is a table, the machine continues in that table, up to metaLoopMax times within one instruction, and
// does not report how often. So we track the length of the longest such chain among the tables of the run: the longer
// it is, the more each instruction costs. Chains of one or two hops cost nothing.

// freeHops is the number of hops that the cost of one step covers.
const freeHops = 2

// chains stores for each table how many hops may lead to it, and to it as a metatable. It never counts too few: it
// ignores links that were removed.
type chains struct {
	locks   *Locks
	toTable map[*lua.LTable]int
	toMeta  map[*lua.LTable]int
}

func newChains(lk *Locks) chains {
	return chains{locks: lk, toTable: map[*lua.LTable]int{}, toMeta: map[*lua.LTable]int{}}
}

func (ch *chains) clear() {
	clear(ch.toTable)
	clear(ch.toMeta)
}

// linkBytes is the cost of a table's data in chains.
const linkBytes = 128

// linked records that a table was given a metatable.
func (ch *chains) linked(c lauxlib.Call, t *lua.LTable) {
	for hops := ch.toTable[t]; hops < metaLoopMax; {
		mt, ok := t.Metatable.(*lua.LTable)
		if !ok || ch.locks.locked(t) {
			return
		}
		if known, ok := ch.toMeta[mt]; !ok || known < hops {
			c.Need(linkBytes)
			ch.toMeta[mt] = hops
		}
		if t = ch.hop(c, mt, hops); t == nil {
			return
		}
		hops++
	}
}

// redirected records that the __index of a table was set, which matters if the table is a metatable.
func (ch *chains) redirected(c lauxlib.Call, mt *lua.LTable) {
	hops, ok := ch.toMeta[mt]
	if !ok {
		return
	}
	if next := ch.hop(c, mt, hops); next != nil {
		ch.linked(c, next)
	}
}

// hop records the step from the table with metatable mt to its __index. It returns that table if it is farther now
// than known before.
func (ch *chains) hop(c lauxlib.Call, mt *lua.LTable, hops int) *lua.LTable {
	next, ok := mt.RawGetString("__index").(*lua.LTable)
	if !ok || ch.toTable[next] > hops {
		return nil
	}
	c.Need(linkBytes)
	ch.toTable[next] = hops + 1
	c.Budget.RaiseChain(hops - freeHops)
	return next
}
