// Package history is what clients saw, as one JSON object per line.
//
// Its law: an operation is two events of one process, its invocation and its
// completion, with times of one monotonic clock, in nanoseconds since the run
// began. The completion is "ok" (done, with its result), "fail" (certainly not
// done) or "info" (nobody can tell). Whoever is in doubt writes "info": a "fail"
// that was done all the same is a bug of the server, and the checkers would be
// right to say so. The faults stand in the same file, as events of the process
// Nemesis, so that a history can be judged again with nothing else at hand.
package history
