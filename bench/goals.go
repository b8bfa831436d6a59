package main

// The peers, by their names in the tables.
const (
	lockdName    = "lockd, 3 nodes"
	etcdName     = "etcd, 3 nodes"
	replicasName = "redis + 2 replicas, WAIT 1"
	redisName    = "one redis"
)

// goal is the least ratio of lockd's operations per second to a peer's, by number of clients.
type goal struct {
	workload string
	pipeline int
	peer     string
	ratios   map[int]float64
}

// goals are lockd's targets: three nodes, two cores for everything, and every server syncs before it answers.
var goals = []goal{
	{"set", 1, etcdName, map[int]float64{1: 2.2, 50: 5.5, 300: 8}},
	{"set", 1, replicasName, map[int]float64{1: 1.1, 50: 1.3, 300: 1.4}},
	{"set", 1, redisName, map[int]float64{1: 0.45, 50: 0.5, 300: 0.55}},
	{"set", 16, redisName, map[int]float64{50: 0.5}},
	{"get", 1, etcdName, map[int]float64{1: 3, 50: 7, 300: 8}},
	{"get", 1, redisName, map[int]float64{1: 0.45, 50: 0.6, 300: 0.75}},
	{"lock", 1, etcdName, map[int]float64{1: 2.8, 50: 6.5, 300: 11}},
	{"lock", 1, replicasName, map[int]float64{1: 1, 50: 1.2, 300: 1.2}},
	{"lock", 1, redisName, map[int]float64{1: 0.45, 50: 0.45, 300: 0.5}},
	{"contend", 1, redisName, map[int]float64{50: 0.6}},
	{"line", 1, redisName, map[int]float64{50: 2.5}}, // its clients poll
}

// handOverMost bounds the time in which a lock passes to the next in line, in multiples of the time of a single SET;
// both are medians.
const handOverMost = 1.5
