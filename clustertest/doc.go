// Package clustertest runs whole clusters of lockd inside a test, in virtual time. Each node has the real machine, with
// scripts, and real sessions, which parse commands, block and answer exactly as for clients. Network, disks and clocks
// are simulated, so a test can cut, slow, kill and step them. Nothing waits for real time: a minute of a cluster's time
// takes about a second.
//
// A transcript describes a cluster: the commands of clients with their replies, and the faults of nodes between them.
//
//	nodes 3
//	> n1 LOCK order:42 alice PX 30000
//	(integer) $alice
//	> n2 LOCK order:42 bob PX 30000 WAIT 60000 &
//	kill n1
//	after 2s
//	> n3 UNLOCK order:42 alice
//	(integer) 1
//	bob: (integer) $bob
//	check $alice < $bob
//
// Put it into a file of your package, testdata/order.txt, and play it:
//
//	func TestOrder(t *testing.T) { clustertest.Run(t, "testdata/order.txt") }
//
// Where a transcript does not suffice, use Go: TestInGo in example_test.go is the same test with Start, Node.Do,
// Node.Go, Cluster.Kill and so on, one method for each word. The transcripts of this package are below testdata: one
// for each word in words, one for each promise of lockd in promises.
//
// A program that is no test uses a World: machines that any goroutine of a bubble starts, kills, pauses and cuts off,
// with errors instead of failures of a test. A Cluster is one.
//
// # What is simulated
//
// Nodes, from their sessions to Raft, are real. So are guard, checksums and checks of package store; below them lies a
// disk in memory, with a log, votes and snapshots. Each of the three keeps what was written and not yet synced: a power
// failure (LosePower) leaves a beginning of it, which the seed decides; a batch of entries, and each write of a vote, is
// there as a whole or not at all, as raft-wal and bbolt have it. A snapshot of a disk that lies may be torn. Bits may
// rot; a node finds that by its checksums. The files themselves are not simulated: not how raft-wal repairs its tail,
// nor what bbolt does with a damaged page.
//
// The fault points of package fault strike in the node for which they were armed (World.Arm), in any build.
//
// A clock may step, and drift. Timers of nodes follow virtual time at any drift.
//
// A paused node sees its clocks stand still, sends nothing, and hears nothing. Its timers fire meanwhile: what a
// goroutine does without reading a clock, logging, or hearing from another node is done before the end of the pause, not
// at the end. So a context of a request ends in the pause, and so do deadlines of connections, as they would at once
// after SIGCONT; but a message that waits never comes before them, as it might there. Raft logs before it stands for
// election or gives up leading, and waits there. A write that the disk takes meanwhile is done.
//
// # Commands and replies
//
// A line "> n1 WORD ..." sends a command to node n1, quoted as in redis-cli, and waits for the reply. The expected
// reply follows in redis-cli's notation (package resp/notation). These commands share one connection for each node.
//
// A command that ends with & runs in the background, on a separate connection. It has a name: the token of a LOCK, or a
// word with a colon before the command, as in "> n1 pop: BLPOP jobs 0 &". A later line "pop: REPLY" waits for its
// answer, for a minute at most, and compares it; "pop: (waits)" asserts that the command still waits. Every background
// command must have its answer asserted, or be hung up.
//
// Commands with the word ; between them are sent at once, as a pipeline; their replies follow each other:
//
//	> n1 INCR counter ; GET counter
//	(integer) 1
//	"1"
//
// A client with a name keeps its connection, for MULTI and WATCH, subscriptions, tracking and pushes:
//
//	client alice n2
//	> alice SUBSCRIBE news
//	subscribe news 1
//	> n1 PUBLISH news hello
//	(integer) 1
//	hears alice
//	message news hello
//
// A push is one line of words. "hears alice" compares all that alice was sent since the last such line, (nothing), or
// at the end (disconnected). What a client has heard must be asserted, unless it hangs up. A command of a named client
// in the background, "> alice BLPOP jobs 0 &", has the client's name: "alice: REPLY".
//
// Instead of a reply a client may see (disconnected): the connection broke; (no connection): the node does not run; or
// (no answer): no answer came within a minute.
//
// Fences, times, and other values that depend on the leader or on the number of log entries differ from run to run. In
// a reply $name matches any word the first time, and the same word later; in a later command it stands for that word.
// * matches any text, and a line "..." any lines. "check $a < $b" compares numbers, with < > <= >= or =. So one
// transcript holds in every run.
//
// # Words
//
//	nodes N                 starts a cluster of n1 to nN; n1 leads. It is the first line
//	kill n1 ...             ends processes, all at once, as kill -9 does
//	stop n1 ...             ends processes in order, as SIGTERM does: a leader hands over first
//	lose-unsynced n1 ...    ends nodes, all at once, as a power failure does: unsynced writes are lost
//	start n1 ...            starts ended nodes again, on their disks
//	restart n1 ...          kill, and start
//	new n4 ...              starts empty nodes that are not founding members: LOCKD ADD n4 n4:16379 adds one
//	wipe n1 ...             replaces the disks of ended nodes by empty ones
//	died n1                 waits until the node has ended its process; below it stands why: (killed) if a fault
//	                        point has killed it
//	cut n1                  separates a node from all others. Clients still reach it
//	cut n1 n2 | n3          separates the nodes on the left from those on the right
//	heal                    ends all cuts
//	pause n1 ...            stops processes, as SIGSTOP does: they send nothing, and messages to them wait
//	resume n1 ...           ends the pause
//	slow n1 200ms           each write to the disk takes this long; 0s: no time, as at the start
//	full n1 ...             disks are nearly full; 3 s pass, so that all nodes know
//	room n1 ...             disks have room again; 3 s pass
//	step-clock n1 -2h       steps a wall clock
//	drift-clock n1 100ppm   makes the clocks of a machine run fast, or slow: -100ppm
//	hang n1 ...             later writes to disks hang
//	unhang n1 ...           disks go on
//	rot n1 log              flips a bit on the disk of an ended node: of an entry, of its votes, or of the newest
//	                        of its snapshots. The next start finds it
//	strike n1 log.sync kill arms a fault point of package fault, which strikes once: kill, drop, tear, error or full
//	leader n1               makes a node the leader, and waits until it leads
//	transfer                makes the leader hand over to another node, and waits until that node leads
//	after 2s                lets time pass
//	client NAME n2          opens a connection that has a name
//	hears NAME              compares what a client was sent unasked
//	hangup NAME             closes the connection of a client, or of a command in the background
//	check $a < $b           compares numbers
//
// Lines that begin with # are comments. A comment "# promise: ID" claims that the lines below it tell a promise of
// docs: TestPromises of cmd/lockd compares these ids with those in the pages. 50 ms pass after each line except after
// and check, so that all nodes know of it.
//
// # Writing replies
//
// If the test registers a flag "rewrite", as the test of this package does, Run writes the replies into the file:
//
//	var _ = flag.Bool("rewrite", false, "write the replies anew")
//
//	go test ./clustertest -run Transcripts/promises/fences -rewrite
//
// Matching lines with * or $name are kept. Fences are written as numbers, which differ in the next run: write $name for
// them. Read the diff, and commit it only if you understand each line of it. With
// LOCKD_TEST_LOG=1 nodes log to stderr.
package clustertest
