// Package sim simulates the machines of a cluster: all nodes run in this process, in virtual time, over a network,
// disks and clocks in memory. It is a host of package target, whose proxies and links stand between the nodes as they do
// between real processes. So workloads, faults and checkers run on it as they are.
//
//	bubble.go    the virtual time that everything runs in
//	world.go     the host: its processes by node, its logs, what the seed decides
//	process.go   one process of a node: how it starts, is paused, dies and stops
//	control.go   its fault port
//	network.go   connections, in memory
//	disk.go      disks, in memory
//
// A machine's disk and clock go on when its process ends. What a process does after its end reaches neither the network
// nor the disk. A paused process neither reads nor writes, on the network or the disk; its timers go on.
//
// All that is drawn, as delays of messages and disks, follows from a seed. The order of goroutines at one instant does
// not: the same seed makes the same machines and the same faults, and not the same run.
package sim
