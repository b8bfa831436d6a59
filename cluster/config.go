package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"lockd/cluster/peer"
	"lockd/cluster/store"
	"lockd/resp"
)

// Defaults of Config, and times and limits that are not configured.
const (
	leaderWaitDefault = 3 * time.Second

	// commitTimeout, to twice that, is how long an idle follower may lag behind what is
	// committed, where the announcer does not tell it.
	commitTimeout = 10 * time.Millisecond
	// commitWaitMax is how long an entry may be on its way before its requests are
	// answered as unknown.
	commitWaitMax = 10 * time.Second
	// enqueueWaitMax is how long Raft may take to accept an entry; after it the entry
	// is certainly not in the log.
	enqueueWaitMax = 5 * time.Second
	// entriesInFlightMax is how many entries may be on their way at a time: one that the
	// leader writes to its disk, and one before it that the others write to theirs.
	entriesInFlightMax = 2
	// queueBytesMax bounds the requests that wait for an entry.
	queueBytesMax = 256 << 20
	// peerTimeout bounds one message of Raft to a peer that does not answer.
	peerTimeout = 5 * time.Second
	// messageBytes is how large a message of several entries becomes.
	messageBytes = 4 << 20
	// appendEntriesMax is how many entries one message carries to a follower that
	// catches up.
	appendEntriesMax = 32

	snapshotEntriesDefault = 16384    // entries after which a snapshot is taken
	snapshotBytesDefault   = 64 << 20 // bytes of entries after which a snapshot is taken
)

// Config is what a Node is made of. Machine, Publisher and ID are required.
type Config struct {
	ID         string // this node's name, unique for ever
	Dir        string // data folder
	PeerListen string // host:port to listen on for the other nodes
	// PeerAdvertise is the peer address as the others reach it, resolved again at each dial. Default:
	// this node's entry in Members, else PeerListen.
	PeerAdvertise string
	ClientAddrs   []string // where clients reach this node, host:port, for INFO, ROLE and LOCKD MEMBERS
	// Members maps the ids of the first members to their peer addresses; the same on every node. None:
	// a single node.
	Members map[string]string
	// PeerSecret is known to every node of the cluster and has at least peer.SecretMin bytes. Peers
	// prove to each other that they know it, over TLS. None: peers are on loopback only.
	PeerSecret []byte
	// PeerInsecure lets peers be anywhere without a PeerSecret. Whoever reaches the peer port may then
	// read and change everything.
	PeerInsecure bool
	Join         bool   // the node is empty and waits until it is added (Node.Join)
	LogStore     string // where the log is kept: "wal" (default) or "boltdb"
	Version      string // of lockd, for INFO

	Heartbeat  time.Duration // silence of the leader after which an election may begin; default 500 ms
	LeaderWait time.Duration // how long a request waits for a leader; default 3 s

	SnapshotEntries uint64 // entries between snapshots, more where the state is large; default 16384
	SnapshotBytes   uint64 // bytes of entries between snapshots, more where those are larger; default 64 MiB

	ClusterProtocol bool            // clients may take the cluster for a Redis Cluster of one shard
	Sentinel        *SentinelConfig // this node also answers as a Redis Sentinel; nil: it does not

	Machine   Machine
	Publisher Publisher
	Info      func() []resp.Section // sections of INFO that others know; may be nil
	Network   peer.Network          // default peer.TCPNetwork
	Clock     Clock                 // default SystemClock
	Log       *slog.Logger          // default slog.Default

	// Fatal ends the process: going on would put the replicas' agreement at risk. It
	// is called at most once, with a sentence for the operator. After it the node
	// applies and answers nothing any more. Default: log the sentence, exit status 1.
	Fatal func(error)

	commitTimeout time.Duration                 // for tests that let hours pass
	stores        func() (*store.Stores, error) // instead of Dir, for tests
	incarnation   string                        // with stores
}

// complete checks c and fills in the defaults.
func (c *Config) complete() error {
	switch {
	case c.ID == "":
		return errors.New("a node needs an id")
	case c.Machine == nil || c.Publisher == nil:
		return errors.New("a node needs a machine and a publisher")
	case len(c.Members) > 0 && c.Members[c.ID] == "":
		return fmt.Errorf("node %s is not in the list of members", c.ID)
	case len(c.Members) > 0 && c.Join:
		return errors.New("a node either has a list of the first members or joins a cluster, not both")
	case len(c.PeerSecret) > 0 && len(c.PeerSecret) < peer.SecretMin:
		return fmt.Errorf("the secret of the peers has %d bytes, fewer than %d", len(c.PeerSecret), peer.SecretMin)
	}
	c.Heartbeat = orDefault(c.Heartbeat, peer.HeartbeatDefault)
	c.LeaderWait = orDefault(c.LeaderWait, leaderWaitDefault)
	c.SnapshotEntries = orDefault(c.SnapshotEntries, snapshotEntriesDefault)
	c.SnapshotBytes = orDefault(c.SnapshotBytes, snapshotBytesDefault)
	c.PeerAdvertise = orDefault(orDefault(c.PeerAdvertise, c.Members[c.ID]), c.PeerListen)
	c.LogStore = orDefault(c.LogStore, store.WAL)
	c.commitTimeout = orDefault(c.commitTimeout, commitTimeout)
	if c.Network == nil {
		c.Network = peer.TCPNetwork{LoopbackOnly: len(c.PeerSecret) == 0 && !c.PeerInsecure}
	}
	if c.Clock == nil {
		c.Clock = NewSystemClock()
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Fatal == nil {
		log := c.Log
		c.Fatal = func(err error) {
			endProcess(func() { log.Error("lockd stops", "why", err) }, os.Exit)
		}
	}
	return c.checkPeers()
}

// fatalSayMax is how long the last words may take: the log may be on the disk that hangs.
const fatalSayMax = time.Second

// endProcess ends the process, after its last words if they can be said.
func endProcess(say func(), exit func(status int)) {
	said := make(chan struct{})
	go func() {
		say()
		close(said)
	}()
	select {
	case <-said:
	case <-time.After(fatalSayMax):
	}
	exit(1)
}

// checkPeers refuses peers on other machines where there is no secret.
func (c *Config) checkPeers() error {
	if err := c.needsSecret("peer address", c.PeerListen); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(c.Members)) {
		if err := c.needsSecret("the address of peer "+id, c.Members[id]); err != nil {
			return err
		}
	}
	return c.needsSecret("advertised peer address", c.PeerAdvertise)
}

// needsSecret is nil if peers may be at an address.
func (c *Config) needsSecret(what, addr string) error {
	if !c.onlyLoopback() || peer.IsLoopback(addr) {
		return nil
	}
	return fmt.Errorf("%s %s is not on loopback: peers on other machines need a secret that every node has: make one "+
		"with `%s` and give it to each by --peer-secret-file (--peer-insecure does without, on a network where "+
		"everybody may read and change everything)",
		what, peer.OneLine(addr, peer.NameMax), makeSecret)
}

// makeSecret is the command that makes a good secret.
const makeSecret = "head -c 32 /dev/urandom | base64 > lockd.secret"

// onlyLoopback reports whether peers must be on this machine. Networks of tests have
// addresses of their own.
func (c *Config) onlyLoopback() bool {
	tcp, ok := c.Network.(peer.TCPNetwork)
	return ok && tcp.LoopbackOnly
}

// SentinelConfig makes a node answer as a Redis Sentinel besides.
type SentinelConfig struct {
	Addr      string                // where clients reach it, host:port
	Master    string                // the name under which they ask for the leader
	Publisher Publisher             // to the clients of the sentinel
	Info      func() []resp.Section // sections of its INFO that others know; may be nil
}

// protocol is what clients take the nodes for.
type protocol struct {
	rows    *resp.Table[nodeCommand]
	enabled string // cluster_enabled of INFO
	notDone string // the error after which clients send a command again
}

func (c *Config) protocol() *protocol {
	if c.ClusterProtocol {
		return redisCluster
	}
	return standalone
}

// clientAddrs are the addresses by which the node makes itself known.
func (c *Config) clientAddrs() []string {
	if c.Sentinel == nil {
		return c.ClientAddrs
	}
	return append(slices.Clone(c.ClientAddrs), sentinelScheme+c.Sentinel.Addr)
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}
