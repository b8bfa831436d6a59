package server

import (
	"context"
	"log/slog"
	"time"

	"lockd/resp"
)

// Config configures a Server. Backend is required.
type Config struct {
	Backend  Backend
	Profile  *Profile          // mode and commands of the server; nil: Standalone
	Hub      *Hub              // made by NewHub before the backend that publishes to it; nil: New makes one
	Password string            // requirepass; empty: none
	Local    map[string]string // values of CONFIG GET that belong to this node: port, bind, dir ...
	Version  string            // lockd's own version, lockd_release of INFO
	RunID    string            // run_id of INFO: 40 hex digits
	Node     string            // the id of this node, recorded in the log with its clients
	Log      *slog.Logger      // nil: slog.Default()
	Clock    Clock             // nil: the system's wall clock
	Seats    *Seats            // connections that the process has descriptors for; nil: no bound
	Protect  bool              // protected-mode: without a password only clients of this machine are served
	LogLevel *slog.LevelVar    // the level of Log, for CONFIG SET loglevel; nil: it cannot be changed
	ACLFile  string            // file that ACL LOAD reads and ACL SAVE writes; empty: none

	ClientsMax  int64  // maxclients of this node alone; 0: that of the cluster
	PubSubCount string // pubsub-count, "cluster" or "node": the subscribers that PUBLISH and PUBSUB count; "": "cluster"

	// Redirect, of a cluster profile, returns the address to which clients must send commands with keys, host:port
	// for clients with TLS or without; "" for this node. nil: always this node. It is called concurrently.
	Redirect func(tls bool) string
}

// Backend executes every command that does not concern the connection itself. It is safe for concurrent use.
type Backend interface {
	// Specs lists the rows of all commands the backend knows.
	Specs() []*resp.Spec
	// Do runs a request and returns one reply for each of its commands, in order, unless a watched key had changed. A
	// request that is Partly may get fewer replies, at least one; the other commands were not executed. The caller
	// has checked each command's name and arity. Failures are replies, too (law 6). When ctx ends, the client has
	// disconnected: Do frees what it holds and returns soon, with any replies.
	Do(ctx context.Context, req resp.Request) resp.Result
	// Block runs a command whose row Blocks and returns when it has ended. A value on unblock ends its wait, unless
	// it was served before: unblocked tells which. When ctx ends, the client has disconnected: Block returns at once,
	// and what the command is given later goes back.
	//
	// Block hands the reply of an executed command to waiter, perhaps after Block has returned. Waiter.Served decides
	// whether the client gets it: if it returns false, the client never does, and what the command was given is taken
	// back: a lock is released, elements return to their list. by may be "": see resp.Request.
	Block(
		ctx context.Context, cmd resp.Cmd, by resp.Sender, unblock <-chan resp.Unblock, waiter resp.Waiter,
	) (reply resp.Reply, unblocked bool)
	// Await returns once the hub has received the messages of the log up to index, or when this node cannot apply it
	// soon. The answer to a request may arrive earlier than its messages.
	Await(ctx context.Context, index uint64)
	// ClientID returns the id of the nth client of this process: from 1 to 2^53-1, and unique in the cluster. It is
	// called for each connection, and does not block.
	ClientID(nth uint64) int64
	// Members returns the number of other nodes that Ask asks.
	Members() int
	// Ask puts a question about clients to the servers of other nodes, and returns the answers that arrive, in any
	// order. Each node is asked after Ask was called. The error says that the answers do not cover the whole cluster.
	Ask(ctx context.Context, q resp.Inquiry) ([]resp.Reply, error)
	// Leases returns this node's view of locks that its clients were granted, one Lease for each. It does not wait
	// for other nodes.
	Leases(locks []resp.HeldLock) []resp.Lease
}

// replyAt returns the reply to command i. A missing reply breaks the contract of Do; the outcome is then unknown.
func replyAt(res resp.Result, i int) resp.Reply {
	if i < len(res.Replies) {
		return res.Replies[i]
	}
	return resp.Err(resp.ErrUnknown)
}

// Clock returns the wall time. It serves displays for operators (uptime, ages, SLOWLOG) and measures how long
// commands took; no lease depends on it.
type Clock func() time.Time

// wallClock is the only place in this package that reads time.
var wallClock Clock = time.Now

// Profile is a kind of server: how it describes itself to clients, and which rows its connections have. The Backend's
// rows must go with it.
type Profile struct {
	mode       string // of HELLO, and redis_mode of INFO
	role       string // of HELLO; "": omitted
	databases  int    // number of databases that SELECT accepts
	noDatabase string // the error of SELECT for any other
	rows       func() [][]row
}

// redisVersion is the version of Redis whose commands are all implemented. Clients choose their commands by it.
const redisVersion = "7.2.4"

// databases is the number of databases of a standalone server.
const databases = 16

// parseDB reads the number of a database as SELECT does.
func (p *Profile) parseDB(text string) (int, error) {
	n, ok := resp.ParseInt(text)
	switch {
	case !ok:
		return 0, resp.Error(resp.ErrNotInteger)
	case n > 1<<31-1 || n < -1<<31:
		return 0, resp.Error("ERR value is out of range, value must between -2147483648 and 2147483647")
	case n < 0 || n >= int64(p.databases):
		return 0, resp.Error(p.noDatabase)
	}
	return int(n), nil
}
