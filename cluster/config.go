package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"lockd/cluster/clock"
	"lockd/cluster/face"
	"lockd/cluster/founding"
	"lockd/cluster/membership"
	"lockd/cluster/peer"
	"lockd/cluster/replica"
	"lockd/cluster/store"
	"lockd/resp"
	"lockd/resp/fault"
)

// Defaults of Config, and times and limits that are not configured.
const (
	leaderWaitDefault = 3 * time.Second

	// commitTimeout, up to twice, bounds the time for which an idle follower lags behind the commit index if the
	// announcer does not tell it.
	commitTimeout = 10 * time.Millisecond

	snapshotEntriesDefault = 16384    // entries after which a snapshot is taken
	snapshotBytesDefault   = 64 << 20 // bytes of entries after which a snapshot is taken
)

// Config configures a Node. Machine, Publisher and ID are required.
type Config struct {
	ID         string // this node's name, unique for ever
	Dir        string // data folder
	Disk       Disk   // keeps the node's data instead of a data folder; nil: Dir does
	PeerListen string // host:port to listen on for the other nodes
	// PeerAdvertise is the peer address as the others reach it, resolved again at each dial. Default:
	// this node's entry in Members, else PeerListen.
	PeerAdvertise string
	ClientAddrs   []string // where clients reach this node, host:port, for INFO, ROLE and LOCKD MEMBERS
	TLSAddr       string   // where they reach it by TLS; in ClientAddrs, too, if there is no other; "": nowhere
	// Members maps the ids of the first members to their peer addresses; the same on every node. They found the cluster
	// together, once all are there. None: a single node.
	Members map[string]string
	// PeerSecrets have at least peer.SecretMin bytes each. Peers prove to each other, over TLS, that they know
	// one: a node shows the first, and believes a peer that knows any. SetPeerSecrets changes them.
	PeerSecrets [][]byte
	// PeerCerts does beside the secrets or instead of them: a node believes a peer with a certificate for the
	// node that the peer says it is. With neither, peers are on loopback only.
	PeerCerts func() (*tls.Certificate, *x509.CertPool)
	// PeerInsecure lets peers be anywhere without these. Any host that reaches the peer port may then
	// read and change everything.
	PeerInsecure bool
	Join         bool               // the node is empty and waits until it is added (Node.Join)
	Discover     *Discovery         // without data the node finds its cluster by itself (Node.Discover); nil: it does not
	JoinTLS      func() *tls.Config // by which it speaks to members at tls://host:port; nil: it has no certificates
	LogStore     string             // where the log is kept: "wal" (default) or "boltdb"
	KeepRoom     bool               // a part of the disk is kept for the log, what is left is watched, and its files are large
	Version      string             // of lockd, for INFO and LOCKD MEMBERS

	Heartbeat  time.Duration // silence of the leader after which an election may begin; default 500 ms
	LeaderWait time.Duration // how long a request waits for a leader; default 3 s

	SnapshotEntries uint64 // entries between snapshots, more where the state is large; default 16384
	SnapshotBytes   uint64 // bytes of entries between snapshots, more where those are larger; default 64 MiB

	ClusterProtocol bool                 // clients may take the cluster for a Redis Cluster of one shard
	Sentinel        *face.SentinelConfig // this node also answers as a Redis Sentinel; nil: it does not

	Machine   Machine
	Publisher Publisher
	Clients   Clients               // what answers other members about this node's clients; nil: it has none
	Info      func() []resp.Section // sections of INFO that others know; may be nil
	Network   peer.Network          // default peer.TCPNetwork
	Clock     clock.Clock           // default SystemClock
	Faults    *fault.Set            // what strikes a simulated node; nil: what strikes the process, in a test build
	Log       *slog.Logger          // default slog.Default

	// Fatal ends the process: going on would put the replicas' agreement at risk. It
	// is called at most once, with a sentence for the operator. After it the node
	// applies and answers nothing any more. Default: log the sentence, exit status 1.
	Fatal func(error)

	commitTimeout time.Duration // for tests that let hours pass
}

// Disk keeps what must survive the end of a node's process, where that is no data folder: it lies in memory, so that a
// test can take away what was not synced. One process at a time uses it.
type Disk interface {
	// Begin tells which disk this is, and what it knows of the starts on it, the present one included. incarnation is
	// another one for each new disk: a node that lost its data is told from the one before. Where starts is empty, starts
	// are not counted. A node calls Begin once, before Open.
	Begin() (incarnation string, starts store.History)
	// Open opens what is there, as store.Open does with a data folder. The node closes it when it stops.
	Open(store.Options) (*store.Stores, error)
	membership.SeenStore // the starts of other nodes
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
	case len(c.Members) > founding.Max:
		return fmt.Errorf("a list founds a cluster of %d nodes at most, not of %d: further ones join it", founding.Max,
			len(c.Members))
	case len(c.Members) > 0 && c.Join:
		return errors.New("a node either has a list of the first members or joins a cluster, not both")
	case c.Discover != nil && (len(c.Members) > 0 || c.Join):
		return errors.New("a node that finds its cluster by itself has neither a list of members nor one to join")
	case c.Discover != nil && (c.Discover.Expect < founding.Min || c.Discover.Expect > founding.Max):
		return fmt.Errorf("a cluster is founded by %d to %d nodes, not by %d", founding.Min, founding.Max, c.Discover.Expect)
	}
	for _, secret := range c.PeerSecrets {
		if len(secret) < peer.SecretMin {
			return fmt.Errorf("the secret of the peers has %d bytes, fewer than %d", len(secret), peer.SecretMin)
		}
	}
	c.Heartbeat = orDefault(c.Heartbeat, peer.HeartbeatDefault)
	c.LeaderWait = orDefault(c.LeaderWait, leaderWaitDefault)
	c.SnapshotEntries = orDefault(c.SnapshotEntries, snapshotEntriesDefault)
	c.SnapshotBytes = orDefault(c.SnapshotBytes, snapshotBytesDefault)
	c.PeerAdvertise = orDefault(orDefault(c.PeerAdvertise, c.Members[c.ID]), c.PeerListen)
	c.LogStore = orDefault(c.LogStore, store.WAL)
	c.commitTimeout = orDefault(c.commitTimeout, commitTimeout)
	if c.Network == nil {
		c.Network = peer.TCPNetwork{LoopbackOnly: len(c.PeerSecrets) == 0 && c.PeerCerts == nil && !c.PeerInsecure}
	}
	if c.Clock == nil {
		c.Clock = clock.NewSystem()
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Fatal == nil {
		log := c.Log
		c.Fatal = func(err error) {
			log.Error("lockd stops", "why", err)
			os.Exit(1)
		}
	}
	return c.checkPeers()
}

// passingSegmentBytes is the size of a file of the log where no room is kept. Such nodes run for a while only, many of
// them at a time, and a file takes its room at once.
const passingSegmentBytes = 4 << 20

// segmentBytes returns the size of a file of the log; 0: the usual one.
func (c *Config) segmentBytes() int {
	if c.KeepRoom {
		return 0
	}
	return passingSegmentBytes
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

// needsSecret returns an error if peers may not be at an address without a secret.
func (c *Config) needsSecret(what, addr string) error {
	if !c.onlyLoopback() || peer.IsLoopback(addr) {
		return nil
	}
	return fmt.Errorf("%s %s is not on loopback: peers on other machines need a secret that every node has: make one "+
		"with `%s` and give it to each by --peer-secret-file (--peer-insecure does without, on a network where "+
		"everybody may read and change everything)",
		what, peer.OneLine(addr, peer.NameMax), makeSecret)
}

// makeSecret is a command that makes a good secret.
const makeSecret = "head -c 32 /dev/urandom | base64 > lockd.secret"

// onlyLoopback reports whether peers must be on this machine. Networks of tests have
// addresses of their own.
func (c *Config) onlyLoopback() bool {
	tcp, ok := c.Network.(peer.TCPNetwork)
	return ok && tcp.LoopbackOnly
}

// clientAddrs returns the addresses by which the node makes itself known.
func (c *Config) clientAddrs() []string {
	all := slices.Clone(c.ClientAddrs)
	if c.TLSAddr != "" {
		all = append(all, membership.TLSScheme+c.TLSAddr)
	}
	if c.Sentinel != nil {
		all = append(all, membership.SentinelScheme+c.Sentinel.Addr)
	}
	return all
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// Machine is the state that the cluster replicates: a pure function of the log.
type Machine = replica.Machine

// Clients are the clients of this node. Its methods are called concurrently.
type Clients interface {
	// Answer answers a question of another member's server. It waits no longer than ctx.
	Answer(ctx context.Context, question resp.Args) resp.Reply
}

// Publisher hands messages to the clients of this node. It never blocks.
type Publisher interface {
	// Publish takes messages, in order, and may deliver them later: they do not change any more. Called from the
	// goroutine that applies.
	Publish(msgs []resp.Message)
	// DropSubscribers closes every subscribed connection of this node, so that its
	// client subscribes again and looks again: messages may have been missed. Clients
	// that track keys (MessageChanges) are told to forget what they have cached.
	DropSubscribers(why string)
	// Listening reports whether messages reach anybody: then the reply to a write is held
	// until they have been published here.
	Listening() bool
}
