// Package acl has the rules that say what a user may do, as in Redis 7: it reads them, writes them
// back, and checks calls against them. It knows no connection and no password in clear, and its users
// never change: a change is another user. So everything in it may be used concurrently, and what the
// machine decides by it is the same on every node.
//
//	users.go     all users by their names
//	user.go      a user: whether he may come in, and what his rules say
//	selector.go  one set of rules: commands, keys, channels; the check of a call
//	commands.go  the commands that rules can name
//	category.go  the categories of commands
//	uses.go      what a command does with its keys
//	rows.go      the rows of ACL itself
//
// Each calls those below it.
package acl
