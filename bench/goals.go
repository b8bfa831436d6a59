package main

// The peers, by their names in the tables.
const (
	lockdName    = "lockd, 3 nodes"
	etcdName     = "etcd, 3 nodes"
	replicasName = "redis + 2 replicas, WAIT 1"
	redisName    = "one redis"
)

// goal is how much more a second lockd does than a peer, by number of clients.
type goal struct {
	workload string
	pipeline int
	peer     string
	ratios   map[int]float64
}

// goals is what lockd promises: three nodes, two cores for everything, every server
// syncs before it answers.
var goals = []goal{
	{"set", 1, etcdName, map[int]float64{1: 1.6, 50: 6, 300: 8}},
	{"set", 1, replicasName, map[int]float64{1: 1.0, 50: 1.5, 300: 1.5}},
	{"set", 1, redisName, map[int]float64{1: 0.35, 50: 0.7, 300: 0.7}},
	{"set", 16, redisName, map[int]float64{50: 0.6}},
	{"get", 1, etcdName, map[int]float64{1: 2, 50: 5, 300: 6}},
	{"get", 1, redisName, map[int]float64{1: 0.2, 50: 0.5, 300: 0.6}},
	{"lock", 1, etcdName, map[int]float64{1: 2.5, 50: 9, 300: 12}},
	{"lock", 1, replicasName, map[int]float64{1: 1.2, 50: 1.5, 300: 1.5}},
	{"lock", 1, redisName, map[int]float64{1: 0.4, 50: 0.7, 300: 0.7}},
	{"contend", 1, redisName, map[int]float64{1: 0.4, 50: 0.7}},
}
