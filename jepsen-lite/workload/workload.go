package workload

import (
	"context"
	"sync"
	"time"

	"lockd/jepsen-lite/model"
)

// Workload is one row of the table: what clients do, and how their history is judged.
type Workload struct {
	Name, Summary string
	// New prepares a run.
	New   func(env *Env) Plan
	Check model.Checker
	Least []string // operations that must occur for Check to mean anything; see model.Least
	// Machine draws a key that is not linearizable; nil: it cannot be drawn.
	Machine *model.Machine
}

// Plan is the work of one run. Setup runs once before the faults. Step is repeated by each worker. Final runs once in
// each worker after the faults. All but Step may be nil.
type Plan struct {
	Setup func(c *Client)
	Step  func(c *Client)
	Final func(c *Client)
	// Beside is repeated by some more clients, independent of the workers.
	Beside func(c *Client)
	// Listen replaces Step in every other worker: it listens until it hears the message of Last, which is sent when all
	// other workers have ended.
	Listen func(c *Client)
	Last   func(c *Client)
}

// lastMax bounds how long Last is tried, and then how long listeners wait for it.
const lastMax = 10 * time.Second

// Table is all workloads, in the order in which they run.
var Table = []Workload{
	{
		"register", "GET, SET, SET GET, SET NX, compare-and-set by Lua, DEL; every key is linearizable",
		newRegister, model.All(model.Register, model.Seen([]string{"set", "cas"}, []string{"versions"})),
		[]string{"get", "set OK", "swap", "setnx", "cas", "del", "versions"}, &model.RegisterMachine,
	},
	{
		"fresh", "few clients count, many read: no read misses an addition that was acknowledged before it, or goes back", newFresh,
		model.All(model.Counter, model.Seen([]string{"add"}, []string{"read"})), []string{"add", "read"}, nil,
	},
	{
		"lock",
		"SET NX PX, renew and release by token; no two holders, fences grow, a fenced resource refuses late holders only",
		newLock, model.Lock, []string{"acquire OK", "acquire nil", "holder nil", "release 1"}, &model.LockMachine,
	},
	{
		"told",
		"events of locks, and losses by pushes: a subscriber is told each event once, in order; a holder of its loss, and before",
		newTold, model.Told,
		[]string{"enter", "renew", "release 1", "force 1", "delete 1", "overwrite", "listen", "message", "lost", "expiring"},
		nil,
	},
	{
		"owners",
		"LOCK OWNER, several locks at once: deadlocks are told, and LOCKS INFO, LIST and GRAPH tell what is so",
		newOwners, model.Owners, []string{"enter", "enter deadlock", "release 1", "info", "list", "graph"}, nil,
	},
	{
		"expiry",
		"keys of 50 ms to 10 s exist exactly as long as the log clock says, which runs like real time; they end in " +
			"time and never come back",
		newExpiry, model.All(model.Expiry, model.Leases),
		[]string{"set", "get", "pttl", "exists", "beat", "grant", "observe 1", "observe 0", "glance", "reign"},
		nil,
	},
	{
		"moments",
		"locks until a moment (PXAT, EXAT, PEXPIREAT, EXPIREAT), TIME and XADD *: a wrong minority of clocks changes " +
			"nothing, and time never goes back",
		newMoments, model.Moments, []string{"now", "time", "id", "take OK", "holder", "extend 1"}, nil,
	},
	{
		"reentrant", "Redisson's lock, renew and unlock scripts: owner, depth and deadline", newReentrant,
		model.Reentrant, []string{"lock nil", "lock held", "unlock 1", "renew", "count"}, &model.ReentrantMachine,
	},
	{
		"counter", "INCR and HINCRBY: no acknowledged addition lost, none done twice", newCounter,
		model.All(model.Counter, model.Seen([]string{"add", "mark"}, []string{"read", "sum"})),
		[]string{"add", "read", "mark", "sum"}, nil,
	},
	{
		"stock", "a script that sells one piece: no acknowledged sale lost, none done twice", newStock,
		model.All(model.Stock, model.Seen([]string{"take"}, []string{"read", "sold"})),
		[]string{"take", "read", "sold"}, nil,
	},
	{
		"set", "unique members: nothing acknowledged is lost, nothing failed appears", newSet,
		model.All(model.Set, model.Seen([]string{"add"}, []string{"read"})), []string{"add", "read"}, nil,
	},
	{
		"list",
		"RPUSH, LPUSH, LPOP, LRANGE: short lists are linearizable, the reads of a long one agree on one order",
		newList, model.All(model.List, model.Seen([]string{"append"}, []string{"all"})),
		[]string{"append", "all", "rpush", "lpop", "range"}, &model.ListMachine,
	},
	{
		"queue",
		"RPUSH, BLPOP and BLMOVE by waiting clients: each value is given out once, in order; no client waits in vain, " +
			"and no value is given to a disconnected one",
		newQueue,
		model.All(model.Queue, model.Probes, model.Seen([]string{"push"}, []string{"left"}),
			model.Seen([]string{"offer"}, []string{"rest"})),
		[]string{"push", "pop", "move", "left", "offer", "rest"}, nil,
	},
	{
		"bank", "transfers by WATCH/MULTI/EXEC and by EVAL: the sum never changes, no read sees half", newBank,
		model.All(model.Bank, model.Seen([]string{"transfer"}, []string{"ledger"})),
		[]string{"transfer done", "ledger", "read"}, nil,
	},
	{
		"append",
		"lists and registers, several at once by MULTI, scripts and plain pipelines: all fit one order, that of real time",
		newAppend, model.Append, []string{"txn", "look"}, nil,
	},
	{
		"wakeup", "PUBLISH, plain and in scripts: a subscriber gets every message, in one order for all, or is disconnected",
		newWakeUp, model.WakeUp, []string{"publish", "count-publish", "listen", "message"}, nil,
	},
	{
		"waiters",
		"waiters for a lock subscribe and sleep at most as long as the lock's lease: a release wakes them, or they are " +
			"disconnected",
		newWaiters, model.Waiters, []string{"acquire OK", "acquire nil", "holder", "release 1", "wait", "seek", "doze", "end 1"},
		&model.LockMachine,
	},
	{
		"line",
		"LOCK WAIT, RENEW, UNLOCK beside SET NX: no two holders, first come first served, no grant to a disconnected client",
		newLine, model.Line, []string{"enter", "try", "acquire", "renew", "release 1", "holder"}, &model.LineMachine,
	},
	{
		"shared",
		"LOCK SHARED: readers together or one writer, in one line, first come first served, each with its own lease",
		newShared, model.Shared, []string{"enter", "renew", "release 1", "holder many"}, nil,
	},
	{
		"limit",
		"LOCK LIMIT: a semaphore never has more holders than permits, first come first served, and no permit is lost",
		newLimit, model.Shared, []string{"enter", "try", "renew", "release 1"}, nil,
	},
	{
		"idempotent",
		"LOCK, RENEW and UNLOCK whose answers are lost, and which are repeated: one fence for a token, no lock is left behind",
		newIdempotent, model.Shared, []string{"enter", "renew", "release 1"}, nil,
	},
	{
		"keys",
		"locks whose keys are renamed, moved, copied, swapped, wiped, made lists or given other leases while clients wait",
		newKeys, model.Keys, []string{"try", "enter", "release 1", "look", "change"}, nil,
	},
	{
		"forensics",
		"locks lost in every way: LOCKS HISTORY and WHY tell on every node all that clients did and saw, in order",
		newForensics,
		model.All(model.Forensics, model.Seen(
			[]string{"enter", "try", "acquire", "release", "delete", "force"}, []string{"history"})),
		[]string{"enter", "try", "acquire OK", "renew", "release 1", "delete 1", "force 1", "overwrite", "history", "why"},
		nil,
	},
	{
		"events",
		"expired events: a subscriber is told of every lease that ends, once, not early, in one order, or is disconnected",
		newEvents, model.Events, []string{"set", "listen", "message"}, nil,
	},
	{
		"scripts",
		"random scripts, and scripts that exceed limits: no node dies, all compute the same, and a limit undoes the " +
			"script's writes",
		newScripts, model.Scripts, []string{"script", "poison", "left"}, nil,
	},
}

// Find returns the row of a name, or nil.
func Find(name string) *Workload {
	for i := range Table {
		if Table[i].Name == name {
			return &Table[i]
		}
	}
	return nil
}

// Clients beside the workers.
const (
	besideCount = 9
	// for them to finish what they have begun
	besideEnd = 3 * time.Second
)

// Run has all workers work until ctx ends, and listeners listen until they have heard the last message.
func (p Plan) Run(ctx context.Context, env *Env) {
	listening, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()
	defer context.AfterFunc(ctx, func() { env.ending.Store(true) })()
	env.worked = ctx.Done()
	var ears, all sync.WaitGroup
	for id := range env.Workers {
		own, step, group := ctx, p.Step, &all
		if p.Listen != nil && id%2 == 0 {
			own, step, group = listening, p.Listen, &ears
		}
		group.Go(func() {
			c := NewClient(own, env, id)
			defer c.Close()
			for ctx.Err() == nil {
				c.Pace()
				step(c)
			}
		})
	}
	longer, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(besideEnd, stop) })()
	for i := range besideCount {
		if p.Beside != nil {
			all.Go(func() {
				c := NewClient(longer, env, env.Workers+i)
				defer c.Close()
				for c.Pace(); ctx.Err() == nil; c.Pace() {
					p.Beside(c)
				}
			})
		}
	}
	all.Wait()
	if p.Last != nil {
		Once(listening, env, 1, lastMax, p.Last)
		time.AfterFunc(lastMax, hangUp)
		ears.Wait()
	}
}

// Once has some workers do something once, within a time. They repeat reads until these are answered.
func Once(ctx context.Context, env *Env, workers int, within time.Duration, do func(c *Client)) {
	if do == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var all sync.WaitGroup
	for id := range workers {
		all.Go(func() {
			c := NewClient(ctx, env, id)
			defer c.Close()
			c.insists = true
			do(c)
		})
	}
	all.Wait()
}
