// Package acl implements the rules of users as in Redis 7: it parses them, writes them back, and checks calls against
// them. It knows neither connections nor passwords in clear. Its values are immutable: a change makes another user.
// So all of them are safe for concurrent use, and the machine decides alike on every node.
//
//	users.go     all users by their names
//	user.go      a user: authentication and rules
//	selector.go  one set of rules: commands, keys, channels; the check of a call
//	commands.go  the commands that rules can name
//	category.go  the categories of commands
//	uses.go      how a command uses its keys
//	rows.go      the rows of ACL itself
//
// Each calls those below it.
package acl
