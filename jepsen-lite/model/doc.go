// Package model judges histories: one checker for each workload, and Live for all of them.
//
//	Checker(history) ── Verdict      problems, each with the line of an event; undecided parts; notes
//
//	rules.go                         the rules: what each says, and how often it must be at stake
//	stake.go                         how often each rule was at stake, and what is undecided because of that
//	linear.go                        a sequential machine, and the search for an order that explains all answers:
//	                                 register, list, lock (plain, reentrant), line
//	append.go                        transactions over several keys, and the cycles that leave no order of them
//	keys.go                          locks whose keys are renamed, moved, swapped, wiped, or get other leases
//	once.go                          changes that are done once or never: counter, stock, set, bank, list, register, scripts
//	clock.go, lease.go, overlong.go  bounds on the log clock and on real time, by which leases are judged: expiry, events,
//	                                 lock, line, shared
//	moments.go                       bounds on the time of day of the cluster, and leases until moments of it: moments
//	fence.go                         fences grow from grant to grant
//	owners.go                        who can hold a lock, or wait for it, at a moment: owners
//	succession.go                    two waiters in line, and faults of their nodes: line, shared, probe
//	wakeup.go                        subscriptions and their messages: wakeup, events, waiters,
//	                                 told
//	liveness.go                      silences, answers that come late, writes that nobody read
//
// A checker is a pure function of a history, so that a recorded one can be judged again. It accepts everything that a
// correct server could have done with the same operations, and names the event that no correct server could have
// answered. A failed operation did not happen. An operation of unknown outcome happened at any time after its start, or
// never. A checker that runs out of time says so, which is no pass. Leases count from before their request was sent,
// the only bound on which a client can rely.
package model
