package load

import (
	"fmt"
	"strings"
)

// workload is one row of the table: the work of the clients.
type workload struct {
	name    string
	summary string
	filled  bool       // needs all keys to be there
	hands   bool       // its operations are hand-overs of a lock; SET is measured beside them
	redis   *redisLoad // nil: not for Redis's protocol
	etcd    *etcdLoad  // nil: not for etcd
}

// redisLoad is a workload in Redis's protocol.
type redisLoad struct {
	step       func(*redisClient) error // does as many operations as the pipeline has
	scripts    []*script                // that it sends by their digests
	subscribes bool                     // each client has a second connection that receives
	before     func(*conn, *plan) error
	after      func(c *conn, p *plan, operations int) error // checks what is left
}

// etcdLoad is a workload for etcd.
type etcdLoad struct {
	step  func(*etcdClient) error // does one operation
	lease bool                    // each client has a lease
}

var workloads = []workload{
	{name: "set", summary: "overwrite one of the keys", filled: true,
		redis: &redisLoad{step: redisSet},
		etcd:  &etcdLoad{step: etcdSet}},
	{name: "get", summary: "read one of the keys, linearizably where the server can", filled: true,
		redis: &redisLoad{step: redisGet},
		etcd:  &etcdLoad{step: etcdGet}},
	{
		name:    "lock",
		summary: "take a free lock by SET NX PX, free it by script; etcd: two transactions, the first with a lease",
		redis:   &redisLoad{step: redisLock, scripts: []*script{releaseScript}},
		etcd:    &etcdLoad{step: etcdLock, lease: true},
	},
	{name: "reentrant", summary: "lock() and unlock() of Redisson's RLock",
		redis: &redisLoad{step: redisReentrant, scripts: []*script{redissonLock, redissonUnlock}}},
	{name: "contend", summary: "all clients try for one lock, and whoever gets it frees it; each try counts",
		redis: &redisLoad{step: redisContend, scripts: []*script{releaseScript}},
		etcd:  &etcdLoad{step: etcdContend, lease: true}},
	{
		name: "line", filled: true, hands: true,
		summary: "hand one lock on, by LOCK WAIT and UNLOCK; from sending the release until the next client has the lock",
		redis:   &redisLoad{step: redisLine, scripts: []*script{releaseScript}, before: openLine},
	},
	{name: "stock", summary: "sell one piece of the same goods by script",
		redis: &redisLoad{step: redisStock, scripts: []*script{stockScript}, before: fillStock, after: countStock}},
	{name: "pubsub", summary: "from PUBLISH until the message was received, at another node if there is one",
		redis: &redisLoad{step: redisPublish, subscribes: true}},
	{name: "mixed", summary: "80 % get, 15 % set, 5 % lock", filled: true,
		redis: &redisLoad{step: redisMixed, scripts: []*script{releaseScript}},
		etcd:  &etcdLoad{step: etcdMixed, lease: true}},
}

func findWorkload(name string) (*workload, error) {
	var names []string
	for i := range workloads {
		if workloads[i].name == name {
			return &workloads[i], nil
		}
		names = append(names, workloads[i].name)
	}
	return nil, fmt.Errorf("there is no workload %q, only %s", name, strings.Join(names, ", "))
}
