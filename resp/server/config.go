package server

import (
	"context"
	"log/slog"
	"time"

	"lockd/resp"
)

// Config is what a Server needs. Backend is required.
type Config struct {
	Backend  Backend
	Profile  *Profile          // what kind of server this is; nil: Standalone
	Hub      *Hub              // made by NewHub before the backend that publishes to it; nil: New makes one
	Password string            // requirepass; empty: none
	Local    map[string]string // values of CONFIG GET that belong to this node: port, bind, dir ...
	Version  string            // lockd's own version, lockd_release of INFO
	RunID    string            // run_id of INFO: 40 hex digits
	Node     string            // the id of this node, which the log says of clients
	Log      *slog.Logger      // nil: slog.Default()
	Clock    Clock             // nil: the wall clock
	Seats    *Seats            // connections that the process has descriptors for; nil: no bound
	Protect  bool              // protected-mode: without a password only clients of this machine are served
	LogLevel *slog.LevelVar    // that of Log, for CONFIG SET loglevel; nil: it cannot be changed
	ACLFile  string            // file that ACL LOAD reads and ACL SAVE writes; empty: none

	ClientsMax  int64  // maxclients of this node alone; 0: that of the cluster
	PubSubCount string // whose subscribers are counted for its clients: CountCluster or CountNode; "": the former

	// Redirect, of a cluster profile, says where commands with keys have to be sent
	// instead: host:port, for clients with TLS or without, "" for here. nil: always here. Sessions
	// call it concurrently.
	Redirect func(tls bool) string
}

// Backend executes everything that is not about the connection itself. Sessions call it
// concurrently.
type Backend interface {
	// Specs lists the rows of all commands the backend knows.
	Specs() []*resp.Spec
	// Do runs a request and returns one reply for each of its commands, in their order, unless a
	// watched key had changed. Of a request that is taken Partly it may answer fewer commands, but
	// one at least; it has not executed the others. The caller has checked each command's name and
	// arity. What goes wrong is a reply, too (law 6). When ctx ends, the client is gone: Do frees
	// what it holds and returns soon, with whatever replies.
	Do(ctx context.Context, req resp.Request) resp.Result
	// Block runs a command whose row Blocks and returns when it has ended. A word on unblock ends
	// its wait, unless it has been served by then. When ctx ends, the client is gone: Block returns
	// at once, and whatever it is given later goes back.
	//
	// Block tells waiter the reply of a command that was executed; that may be after Block has returned. Waiter.Served
	// decides whether the client hears it: if it returns false, the client never does, and what the command has given
	// it is taken back: a lock is released, elements return to where they came from. by may be "": see resp.Request.
	Block(
		ctx context.Context, cmd resp.Cmd, by resp.Sender, unblock <-chan resp.Unblock, waiter resp.Waiter,
	) resp.Reply
	// Await returns once the hub has heard what the entries of the log up to index tell, or when
	// this node cannot say so soon. The answer to a request may be here before.
	Await(ctx context.Context, index uint64)
	// ClientID returns the id of the nth client since this process began: from 1 to 2^53-1, and unlike that of any
	// other client. It is called for each connection, and does not wait.
	ClientID(nth uint64) int64
	// Members is how many other nodes Ask asks.
	Members() int
	// Ask has the servers of other nodes answer a question about their clients, and returns the answers of those that
	// do, in any order. The questions leave after Ask was called. The error says that the answers do not count for the
	// whole cluster.
	Ask(ctx context.Context, q resp.Inquiry) ([]resp.Reply, error)
	// Leases says what this node knows of locks that its clients were granted, one Lease for each. It
	// does not wait for other nodes.
	Leases(locks []resp.HeldLock) []resp.Lease
}

// Clock tells the wall clock. It serves what an operator reads (uptime, ages,
// SLOWLOG) and measures how long commands took; no lease is judged by it.
type Clock func() time.Time

// wallClock is the one place of this package where time is read.
var wallClock Clock = time.Now

// Profile is the kind of server that clients take this one for: what it says of
// itself, and which rows its connections have. The Backend's rows must go with it.
type Profile struct {
	mode       string // of HELLO, and redis_mode of INFO
	role       string // of HELLO; "" where it has none
	databases  int    // that SELECT knows
	noDatabase string // the error of SELECT for any other
	rows       func() [][]row
}

// redisVersion is the version of Redis whose commands are all here. Clients
// choose what they send by it.
const redisVersion = "7.2.4"

// databases is how many a standalone server has.
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
