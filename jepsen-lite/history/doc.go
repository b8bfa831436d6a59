// Package history records what clients saw, as one JSON object per line, and reads it back.
//
// An operation is two events of one process, its invocation and its completion, with times of one monotonic clock in
// nanoseconds since the run began. The completion is "ok" (done, with its result), "fail" (certainly not done) or "info"
// (unknown). A client that is not certain writes "info": a "fail" that was done all the same is a bug of the server, and
// the checkers report it. Faults are events of the process Nemesis in the same file, so that a history can be judged
// again with nothing else.
package history
