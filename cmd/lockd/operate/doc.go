// Package operate asks nodes for what operators want of them, as the commands of the program do, through any client: over
// TCP, or over a network in memory.
//
//	drain.go    a node that is to be taken away for a while
//	backup.go   a backup, in a file
//	ask.go      what nodes say of themselves
package operate
