// Package sim runs the nodes of a cluster on simulated machines: in this process, in virtual time, in a
// clustertest.World. It is a host of package target, whose proxies and links stand between the nodes as they do between
// real processes. So workloads, faults and checkers run on it as they are.
//
//	bubble.go    the virtual time that everything runs in
//	world.go     the host: its machines and logs, what the seed decides
//	process.go   one process of a node, as package target sees it
//	control.go   its fault port
//	folder.go    its data folder
//	tool.go      the commands of operators, over the network of the machines
//
// Package clustertest says what is simulated of machines. Here the network has delays in addition: each message to or
// from a port of a node takes a while. A machine's disk and clocks go on when its process ends.
//
// All that is drawn, as delays of messages and disks, follows from a seed. The order of goroutines at one instant does
// not: the same seed makes the same machines and the same faults, and not the same run.
package sim
