package workload

import (
	"context"
	"sync"
	"time"

	"lockd/jepsen-lite/model"
)

// Workload is one row of the table.
type Workload struct {
	Name, Summary string
	// New prepares a run: setup is done once, before the faults; step is what a worker
	// does again and again; final is done once by each worker after the faults.
	New   func(env *Env) Plan
	Check model.Checker
	Least []string // without which Check could find nothing, as model.Least takes them
	// Machine draws a key that is not linearizable; nil: there is no such picture.
	Machine *model.Machine
}

// Plan is what the workers of one run do. Only Step must be there.
type Plan struct {
	Setup func(c *Client)
	Step  func(c *Client)
	Final func(c *Client)
	// Beside is what some more clients do again and again, which have nothing to do with what the workers do.
	Beside func(c *Client)
	// Listen is what every other worker does instead of Step, again and again: it listens
	// until it has heard what Last says, after all the others have come to their ends.
	Listen func(c *Client)
	Last   func(c *Client)
}

// lastMax bounds how long Last is tried, and then waited for.
const lastMax = 10 * time.Second

// Table is every workload, in the order in which they run.
var Table = []Workload{
	{
		"register", "GET, SET, SET GET, SET NX, compare-and-set by Lua, DEL; every key is linearizable",
		newRegister, model.All(model.Register, model.Seen([]string{"set", "cas"}, []string{"versions"})),
		[]string{"get", "set OK", "swap", "setnx", "cas", "del", "versions"}, &model.RegisterMachine,
	},
	{
		"fresh", "a few count, many read: no read misses what was acknowledged before it, or goes back", newFresh,
		model.All(model.Counter, model.Seen([]string{"add"}, []string{"read"})), []string{"add", "read"}, nil,
	},
	{
		"lock",
		"SET NX PX, renew and release by token; no two holders, fences grow, a fenced resource refuses only the late",
		newLock, model.Lock, []string{"acquire OK", "acquire nil", "holder nil", "release 1"}, &model.LockMachine,
	},
	{
		"expiry",
		"keys of 50 ms to 10 s: there exactly as long as the log clock says, which runs like real time; gone in " +
			"time, never back",
		newExpiry, model.All(model.Expiry, model.Leases),
		[]string{"set", "get", "pttl", "exists", "beat", "grant", "observe 1", "observe 0", "glance", "reign"},
		nil,
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
		"stock", "a script that sells one piece: the same for a number that shrinks", newStock,
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
		"RPUSH, BLPOP and BLMOVE by clients who wait: each value is given out once, in order, nobody waits in vain, and " +
			"nothing is given to who is gone",
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
		"wakeup", "PUBLISH, plain and in scripts: who listens hears every message, in one order, or is cut off",
		newWakeUp, model.WakeUp, []string{"publish", "count-publish", "listen", "message"}, nil,
	},
	{
		"waiters",
		"who waits for a lock subscribes and sleeps as long as it was told: woken by the release or cut off, never " +
			"longer",
		newWaiters, model.Waiters, []string{"acquire OK", "acquire nil", "holder", "release 1", "wait"},
		&model.LockMachine,
	},
	{
		"line",
		"LOCK WAIT, RENEW, UNLOCK beside SET NX: no two holders, first come first served, no grant to who is gone",
		newLine, model.Line, []string{"enter", "try", "acquire", "renew", "release 1", "holder"}, &model.LineMachine,
	},
	{
		"shared",
		"LOCK SHARED: readers together or one writer, in one line, first come first served, each with a lease of his own",
		newShared, model.Crowd, []string{"enter", "renew", "release 1", "holder many"}, nil,
	},
	{
		"limit",
		"LOCK LIMIT: never more hold a semaphore than it is for, first come first served, and no permit is lost",
		newLimit, model.Crowd, []string{"enter", "try", "renew", "release 1"}, nil,
	},
	{
		"idempotent",
		"LOCK, RENEW and UNLOCK whose answers are lost, and asked for again: one fence for a token, nothing is left behind",
		newIdempotent, model.Crowd, []string{"enter", "renew", "release 1"}, nil,
	},
	{
		"forensics",
		"locks lost in every way: LOCKS HISTORY and WHY tell on every node what the clients did and saw, all of it, in order",
		newForensics,
		model.All(model.Forensics, model.Seen(
			[]string{"enter", "try", "acquire", "release", "delete", "force"}, []string{"history"})),
		[]string{"enter", "try", "acquire OK", "renew", "release 1", "delete 1", "force 1", "overwrite", "history", "why"},
		nil,
	},
	{
		"events",
		"expired events: who listens is told of every lease that ends, once, not early, in one order, or is cut off",
		newEvents, model.Events, []string{"set", "listen", "message"}, nil,
	},
	{
		"scripts",
		"random scripts, and such that ask for too much: no node dies of one, all compute the same, a limit undoes " +
			"what was written",
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

// besideCount is how many clients there are beside the workers, and besideEnd for how long they may go on to end what
// they have begun.
const (
	besideCount = 9
	besideEnd   = 3 * time.Second
)

// Run has all workers work until ctx ends, and listen until they have heard the last.
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

// Once has one worker, or all of them, do something once, within a time. What they read
// they ask for again until it is answered.
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
