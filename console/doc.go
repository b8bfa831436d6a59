// Package console is lockd's page for people: the locks that are held, their lines and what has become
// of them, the members and what is wrong, in a browser.
//
// Its law: it is a client like any other. All it knows it asks by commands, on a connection of its own
// with the password that the browser gave, so what holds for clients (passwords, limits, MONITOR, the
// slow log) holds for whoever looks. It never delays a lock: what it asks is bounded, and those who
// watch the same share one question.
package console
