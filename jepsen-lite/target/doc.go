// Package target builds the cluster under test, starts it as real processes, and breaks it.
//
//	Target ── Cluster Connections Processes Disks FaultPorts Builds Tools Health Dialect   small interfaces, by use
//	   │
//	   ├─ lockd    one part for each interface, over one fleet of lockdNodes
//	   └─ redis    the control: one part for each interface, over one redisFleet
//
//	lockdNode ── proc         its process: start, signals, ends, the ends that are expected
//	          ├─ disk         whether its data folder is lost or in doubt
//	          └─ Proxy ×2     before its ports
//	                └─ Link   one for each direction of each pair of ends; a Layer is the part of one fault in it
//
// Everything runs on loopback as an ordinary user. Processes are killed with SIGKILL and paused with SIGSTOP. A process
// that ends without an order is a finding.
//
// Every byte between two nodes, and between a client and a node, passes a Proxy and obeys the Link of its direction. A
// partition is a Link that holds bytes back: they arrive late, and none is lost in the middle of a stream, as with TCP. A
// reset breaks the connection and loses the bytes on their way. A Proxy refuses connections while nobody listens behind it.
//
// Tools are the server's own commands (tool.go), among them those that make a new cluster of an old one: a Single.
//
// Kind.Build builds the server, with bugs planted in it (bug.go, plant.go), or as it was at a commit (ref.go).
package target
