package server

import (
	"context"
	"sync/atomic"

	"lockd/resp"
	"lockd/resp/server/access"
	"lockd/resp/server/holders"
	"lockd/resp/server/pubsub"
	"lockd/resp/server/settings"
	"lockd/resp/server/track"
)

// Hub takes what the log tells the clients of this node: messages for subscribers, changes of keys that clients cache,
// losses of locks, users, and settings. The goroutine that applies the log calls Publish, so Publish does bounded work
// and never blocks.
type Hub struct {
	settings *settings.Cluster
	broker   *pubsub.Broker
	tracking *track.Table // guarded by the broker's lock, except InUse
	holders  *holders.Table
	users    *access.Users
	monitors monitors
	clients  atomic.Pointer[registry] // nil: there is no server yet
}

// NewHub returns a hub. It accepts settings and messages before it has a server.
func NewHub() *Hub {
	h := &Hub{settings: settings.NewCluster(), monitors: monitors{all: map[*client]struct{}{}}}
	h.broker = pubsub.NewBroker(h.settings.PushLimit)
	h.users = access.NewUsers(h.broker)
	h.holders = holders.NewTable(h.broker)
	h.tracking = track.NewTable(h.settings.TrackedKeysMax.Load)
	return h
}

// Listening reports whether there are subscribers, or clients that track keys.
func (h *Hub) Listening() bool { return h.broker.InUse() || h.tracking.InUse() }

// DropSubscribers closes every subscribed connection, because it may have missed messages: its client then subscribes
// and reads again. Tracking clients are told that any key may have changed; the leases of all holders of locks are
// checked.
func (h *Hub) DropSubscribers(why string) {
	h.broker.Lock()
	defer h.broker.Unlock()
	h.tracking.Missed()
	h.holders.CheckAll()
	h.broker.DropAll(why)
}

// Publish distributes messages, in order; news of locks goes to their holders after everything else. The messages of
// an entry that follow each other are one parcel for subscribers.
func (h *Hub) Publish(msgs []resp.Message) {
	anybody, locks, queued := h.broker.InUse(), false, 0
	flush := func(end, next int) {
		if anybody && end > queued {
			h.broker.Publish(msgs[queued:end])
		}
		queued = next
	}
	for i := range msgs {
		m := &msgs[i]
		locks = locks || m.Form != nil
		if m.Kind == resp.MessageChannel || m.Kind == resp.MessageShard || m.Kind == resp.MessageLock {
			continue // it is queued together with the next ones
		}
		flush(i, i+1)
		switch {
		case m.Kind == resp.MessageConfig:
			h.settings.Apply(m.Channel, m.Payload)
		case m.Kind == resp.MessageUser || m.Kind == resp.MessageUsers:
			h.users.Publish(m)
		case m.Kind == resp.MessageChanges && h.tracking.InUse():
			h.publishChanges(m)
		}
	}
	flush(len(msgs), 0)
	if locks && h.holders.InUse() {
		h.holders.Publish(msgs)
	}
}

// publishChanges sends invalidations for the changes of an entry.
func (h *Hub) publishChanges(m *resp.Message) {
	h.broker.Lock()
	defer h.broker.Unlock()
	h.tracking.Publish(m)
}

// askPing is the question whether the node answers.
const askPing = "PING"

// Answer answers a question of another node's server about this node's clients. It blocks until ctx ends at most. It
// is safe for concurrent use, also before there is a server.
func (h *Hub) Answer(ctx context.Context, question resp.Args) resp.Reply {
	switch kind, clients := question[0], h.clients.Load(); {
	case kind == askPing:
		return resp.OK()
	case kind != askKill && kind != askUnblock:
		return h.broker.Answer(ctx, question)
	case clients == nil:
		return resp.Int(0) // no client has connected yet
	default:
		return clients.answer(ctx, kind, question[1:])
	}
}
