package cluster

import (
	"context"
	"fmt"

	"lockd/cluster/peer"
	"lockd/resp"
)

// outcome is how a request ended (law 6), in the words in which nodes tell each other.
type outcome = peer.Outcome

const (
	outcomeDone    = peer.Done
	outcomeNotDone = peer.NotDone
	outcomeUnknown = peer.Unknown
)

// openPeers opens the peer port. It is served when the node is ready to judge who connects.
func (n *Node) openPeers() error {
	p, err := peer.Open(peer.Config{
		Network: n.cfg.Network, Listen: n.cfg.PeerListen, Self: n.members.identity,
		Heartbeat: n.cfg.Heartbeat, Patience: peerTimeout, Log: n.log, Expect: n.raft.idAt,
		Secret: n.cfg.PeerSecret, Ready: n.ready,
	}, peer.Handler{Admit: n.members.admit, Forward: n.serveForward, Status: n.serveStatus, Refused: n.members.refused})
	if err != nil {
		return fmt.Errorf("peer address %s: %w", n.cfg.PeerListen, err)
	}
	n.peers, n.members.peers, n.reader.peers = p, p, p
	return nil
}

// forward has the node at addr run req as the attempt a, and waits for the answer until ctx
// ends.
func (n *Node) forward(ctx context.Context, addr string, req resp.Request, a *attempt) answer {
	out := n.peers.Forward(ctx, addr, req, peer.Binding{Session: a.session, Number: a.number, Term: a.term})
	return answer{outcome: out.Outcome, result: out.Result, index: out.Index}
}
