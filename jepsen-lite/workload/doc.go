// Package workload is the work of clients: one file and one row of Table for each workload.
//
//	Workload.New(Env) ── Plan      Setup, Step, Final ...: what a worker does
//	                       │
//	Plan.Run ── Client.Do(Call)    one connection at a time, through Servers; each operation is recorded
//
// A worker does one thing after the other, and records each operation before it sends and after the answer. It never
// guesses: an operation that was sent and not answered has an unknown outcome. It repeats nothing; another try is
// another operation. After an unknown outcome the worker goes on as another process, since a process of a history does
// one thing after the other. Values are unique, so that an answer tells which write it saw.
package workload
