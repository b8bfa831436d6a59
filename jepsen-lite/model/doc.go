// Package model judges histories.
//
// Its law: a checker is a pure function of a history, so that a recorded one can
// be judged again. It accepts everything that a correct server could have done
// with the same operations, and names the event that no correct server could have
// answered. An operation that failed did not happen; one whose outcome is unknown
// happened at any time after its start, or never. A checker that runs out of time
// says so: that is no pass. Leases are counted from before the request was sent,
// which is the only bound a client can rely on.
package model
