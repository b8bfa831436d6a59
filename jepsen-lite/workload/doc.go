// Package workload is what clients do, one file and one table row each.
//
// Its law: a worker does one thing after the other, and records each invocation
// before it sends and each completion after the answer came. It never guesses:
// what may have been sent and was not answered is unknown. It tries nothing twice;
// a second try is another operation. A process that is in doubt ends, and its
// worker goes on as a new one. Values are unique, so that an answer tells which
// write it saw.
package workload
