// Package clustertest runs whole clusters of lockd inside a test, in virtual time. Each node has the real machine, with
// scripts, and real sessions, which parse, park and answer commands exactly as clients see them. Network, disks and
// clocks are simulated, so a test can cut, slow, kill and step them. Nothing waits for real time: a minute of a
// cluster's time takes about a second.
//
// A cluster is told in a transcript: what clients send and are answered, and what happens to the nodes meanwhile.
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
// The same in Go, where a transcript does not do, is TestInGo in example_test.go; it uses Start, Node.Do, Node.Go,
// Cluster.Kill and so on, one method for each word. Transcripts of this package are files below testdata: words has one
// for each word, promises one for each promise that lockd makes.
//
// # Commands and replies
//
// A line "> n1 WORD ..." sends a command to node n1, quoted as in redis-cli, and waits for the reply, which stands
// right below it in redis-cli's notation (package resp/notation). All these commands of a node go over one connection.
//
// A command that ends with & does not wait. It has a connection of its own, and a name: the token of a LOCK, or a word
// with a colon before the command, as in "> n1 pop: BLPOP jobs 0 &". A line "pop: REPLY" asserts its answer where it
// stands, and waits for it a minute at most; "pop: (waits)" asserts that there is none yet. Each answer must be
// asserted, or its client hung up.
//
// Instead of a reply a client may see (disconnected), its connection broke; (no connection), the node does not run; or
// (no answer), there was none within a minute.
//
// Fences, moments and whatever else follows from which node leads, or from the number of entries in the log, differ
// from run to run. In a reply $name stands for a word: for any the first time, later for the same. * stands for any
// text. "check $a < $b" compares numbers; other signs are > <= >= and =. With them a transcript gives the same bytes
// each time.
//
// # Words
//
//	nodes N                 starts a cluster of n1 to nN; n1 leads. It is the first line
//	kill n1 ...             ends processes, all at once, as kill -9 does
//	stop n1 ...             ends processes in order, as SIGTERM does: a leader hands over first
//	lose-unsynced n1 ...    ends nodes, all at once, as a power failure does: what was not synced is gone
//	start n1 ...            starts what was ended, on its disk
//	restart n1 ...          kill, and start
//	cut n1                  separates a node from all others. Clients still reach it
//	cut n1 n2 | n3          separates these from those
//	heal                    ends all cuts
//	pause n1 ...            a node sends nothing, and what it is sent waits. Its timers go on
//	resume n1 ...           ends that
//	slow n1 200ms           each write to the disk takes so long; 0s: no time, as at the start
//	full n1 ...             disks are nearly full, and 3 s pass, in which the nodes hear of it
//	room n1 ...             there is room again, and 3 s pass
//	step-clock n1 -2h       steps a wall clock
//	leader n1               has a node lead, and waits until it does
//	transfer                has the leader hand over to some other node, and waits until that leads
//	after 2s                lets time pass
//	hangup NAME             closes the connection of a command in the background
//	check $a < $b           compares numbers
//
// Lines that begin with # are comments. After each line but after and check 50 ms pass, in which all nodes hear of it.
//
// # Writing replies
//
// A test that registers a flag "rewrite" has Run write the replies into the file, as that of this package does:
//
//	go test ./clustertest -run Transcripts/promises/fences -rewrite
//
// Lines with * or $name that match stay. Read the diff, and commit it only if you understand each line of it. With
// LOCKD_TEST_LOG=1 nodes log to stderr.
package clustertest
