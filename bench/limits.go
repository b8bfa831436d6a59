package main

const (
	most  = false
	least = true
)

// limits are the promised limits of lockd: default settings, every server syncs before it answers, and the load runs
// on the same machine.
var limits = []limit{
	{"memory", []promise{{"resident memory with the same held locks, lockd : redis", 1.5, "x", most}}, measureMemory},
	{"keys", []promise{{"cost of a SET with the most keys, against 1,000", 1.3, "x", most}}, measureKeys},
	{"snapshot", []promise{{"p99.9 of SET later while the leader takes snapshots", 10, "ms", most}}, measureSnapshot},
	{"restart", []promise{{"from the start after a SIGKILL to a linearizable GET", 3, "s", most}}, measureRestart},
	{"expiry", []promise{{"slowest SET later while keys expire all at once", 20, "ms", most}}, measureExpiry},
	{"idle", []promise{{"memory of an idle connection", 20, "KiB", most}}, measureIdle},
	{"soak", []promise{
		{"elections under full load", 0, "", most},
		{"most memory of a node, second half : first half", soakGrowthMax, "x", most},
		{"most disk of a node", soakDiskMax, "MiB", most},
	}, measureSoak},
	handover("kill", "SIGKILL of the leader", 0.3, 0.08, byKill),
	handover("term", "SIGTERM of the leader", 0.2, 0.02, byTerm),
	handover("transfer", "LOCKD TRANSFER, as lockd drain asks for", 0.2, 0.02, byTransfer),
	handover("stop", "SIGSTOP of the leader", 2, 1.2, byStop),
	{"costly", []promise{
		{"longest wait of others while a client sends what costs most", 1, "s", most},
		// They are answered when their own node has executed it, too, which begins when the leader has.
		{"the same, of others at nodes whose clients subscribe or track", 1, "s", most},
	}, measureCostly},
	{"clients", []promise{{"SETs with the most clients, against 300", 0.8, "x", least}}, measureClients},
	{"nodes", []promise{{"SETs of five nodes, against three", 0.7, "x", least}}, measureNodes},
}

// handover is the limit of what takes the leadership from the leader: bounds of the time without a write, in seconds.
func handover(name, after string, worst, median float64, by deposition) limit {
	return limit{name, []promise{
		{"longest time without a write after " + after, worst, "s", most},
		{"the same, in the median", median, "s", most},
		{"writes at the other nodes that are answered otherwise than done", 0, "", most},
	}, measureHandover(by)}
}

// soakGrowthMax bounds the growth in the second half of a soak. Bounded resources reach their bound in the first
// half, in which the log is trimmed many times; more growth than noise after that means that a resource has no bound.
const soakGrowthMax = 1.2

// soakDiskMax, in MiB: the log reaches back to the older of two snapshots, which are
// at most 64 MiB of entries apart, and as much may follow the newer one; it is kept
// in segments of 64 MiB, of which the first may be all but trimmed, and the last is
// there in full before it is written. Two more are kept room for by the ballast. The
// rest is for the snapshots themselves (a soak has few keys), and the votes.
const soakDiskMax = (4+2)*64 + 16
