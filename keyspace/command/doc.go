// Package command has the commands on the state: their rows, by families, their parsers, and their calls.
//
// Its law: a command touches what Ctx offers, and nothing else: no clock, no randomness, no order of a Go map.
//
//	table.go     the rows of all families, the commands that are elsewhere, and the levels of the cluster
//	cmd_*.go     one file for each family of commands, its rows first
//	script.go    a running script: its calls
//	block.go     a command that may wait, until it waits and when it is served
//	lookup.go    how commands reach, compare and change what a key holds
//	ctx.go       what a command is, and all that it may touch
//	call.go      the two halves of a command: the parser and the call
//
// Each calls those below it, but for
//
//	block.go -> table.go     blocking commands, and commands of reversals, are found by their names
//
// Package state, below, has the state and knows no command; package keyspace, above, has the log clock, the order of an
// entry, and the waiters that a change serves.
package command
