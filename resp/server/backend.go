package server

import (
	"context"

	"lockd/resp"
)

// Backend executes everything that is not about the connection itself. Sessions
// call it concurrently.
type Backend interface {
	// Specs lists the rows of all commands the backend knows.
	Specs() []*resp.Spec
	// Do runs a request and returns one reply for each of its commands, in their
	// order, unless a watched key had changed. Of a request that is taken Partly it may
	// be fewer, but one at least: the other commands were not executed. The caller has checked each
	// command's name and arity. Do never returns an error of its own kind: what
	// goes wrong is a reply (law 6). When ctx ends, the client is gone: Do frees
	// what it holds and returns soon, with whatever replies.
	Do(ctx context.Context, req resp.Request) resp.Result
	// Block runs a command whose row Blocks and returns when it has ended. A word on
	// unblock ends its wait, unless it has been served by then. When ctx ends, the
	// client is gone: Block returns at once, and whatever is served later is lost.
	// What a command is answered that was executed, served hears as well, at most once:
	// before anything that it has changed is published. It must not wait, and may be
	// called after Block has returned. It decides whether the client hears of it: if it
	// returns false, the client never does, and a lock that was granted to it is released.
	Block(ctx context.Context, cmd resp.Cmd, unblock <-chan resp.Unblock, served func(resp.Reply) bool) resp.Reply
	// Await returns once the hub has heard what the entries of the log up to index tell,
	// or this node can not say so soon. An answer may be here before.
	Await(ctx context.Context, index uint64)
}
