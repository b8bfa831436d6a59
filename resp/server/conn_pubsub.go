package server

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"lockd/resp"
)

const (
	subscribing = resp.PubSub | resp.NoScript | resp.Loading | resp.Stale
	listing     = resp.PubSub | resp.Loading | resp.Stale
)

func pubsubRows() []row {
	sub := func(k *kind, leave bool) action {
		run := k.subscribe
		if leave {
			run = k.unsubscribe
		}
		return action{run: run, whileSubscribed: true, hubLocked: true, onSentinel: k != shardKind}
	}
	return []row{
		{Spec: resp.Spec{Name: "subscribe", Arity: -2, Flags: subscribing, Group: "pubsub", Since: "2.0.0",
			Summary: "Listen for messages published to the given channels",
			Syntax:  "channel [channel ...]"}, Run: sub(channelKind, false)},
		{Spec: resp.Spec{Name: "unsubscribe", Arity: -1, Flags: subscribing, Group: "pubsub", Since: "2.0.0",
			Summary: "Stop listening for messages posted to the given channels",
			Syntax:  "[channel [channel ...]]"}, Run: sub(channelKind, true)},
		{Spec: resp.Spec{Name: "psubscribe", Arity: -2, Flags: subscribing, Group: "pubsub", Since: "2.0.0",
			Summary: "Listen for messages published to channels matching the given patterns",
			Syntax:  "pattern [pattern ...]"}, Run: sub(patternKind, false)},
		{Spec: resp.Spec{Name: "punsubscribe", Arity: -1, Flags: subscribing, Group: "pubsub", Since: "2.0.0",
			Summary: "Stop listening for messages posted to channels matching the given patterns",
			Syntax:  "[pattern [pattern ...]]"}, Run: sub(patternKind, true)},
		{Spec: resp.Spec{Name: "ssubscribe", Arity: -2, Flags: subscribing, Keys: resp.AllKeys,
			Group: "pubsub", Since: "7.0.0",
			Summary: "Listen for messages published to the given shard channels",
			Syntax:  "shardchannel [shardchannel ...]"}, Run: sub(shardKind, false)},
		{Spec: resp.Spec{Name: "sunsubscribe", Arity: -1, Flags: subscribing, Keys: resp.AllKeys,
			Group: "pubsub", Since: "7.0.0",
			Summary: "Stop listening for messages posted to the given shard channels",
			Syntax:  "[shardchannel [shardchannel ...]]"}, Run: sub(shardKind, true)},
		resp.WithHelp("6.2.0", always, row{Spec: resp.Spec{Name: "pubsub", Arity: -2, Group: "pubsub", Since: "2.8.0",
			Summary: "A container for Pub/Sub commands"},
			Subs: []row{
				{Spec: resp.Spec{Name: "pubsub|channels", Arity: -2, Flags: listing, Group: "pubsub", Since: "2.8.0",
					Summary: "List active channels", Syntax: "[pattern]"},
					Run: action{run: pubsubChannels, asksBackend: true, countsSubscribers: true}},
				{Spec: resp.Spec{Name: "pubsub|numsub", Arity: -2, Flags: listing, Group: "pubsub", Since: "2.8.0",
					Summary: "Get the count of subscribers for channels", Syntax: "[channel [channel ...]]"},
					Run: action{run: pubsubNumSub, asksBackend: true, countsSubscribers: true}},
				{Spec: resp.Spec{Name: "pubsub|numpat", Arity: 2, Flags: listing, Group: "pubsub", Since: "2.8.0",
					Summary: "Get the count of unique patterns pattern subscriptions"},
					Run: action{run: pubsubNumPat, asksBackend: true, countsSubscribers: true}},
				{Spec: resp.Spec{Name: "pubsub|shardchannels", Arity: -2, Flags: listing,
					Group: "pubsub", Since: "7.0.0",
					Summary: "List active shard channels", Syntax: "[pattern]"},
					Run: action{run: pubsubShardChannels, asksBackend: true, countsSubscribers: true}},
				{Spec: resp.Spec{Name: "pubsub|shardnumsub", Arity: -2, Flags: listing, Group: "pubsub", Since: "7.0.0",
					Summary: "Get the count of subscribers for shard channels",
					Syntax:  "[shardchannel [shardchannel ...]]"},
					Run: action{run: pubsubShardNumSub, asksBackend: true, countsSubscribers: true}},
			}}),
	}
}

// subscriptions are those of one session. Its own goroutine changes them, with the hub's lock held.
type subscriptions struct {
	names [3]map[string]uint64 // by kind: the name and its sequence number
	seq   uint64
}

// kind is one of the three ways to subscribe, by channel, pattern or shard channel, with its commands.
type kind struct {
	at        int // in subscriptions.names
	word      string
	leaveWord string
	nameMax   int
	tooLong   string
	others    []int                             // kinds whose count a confirmation adds up
	add       func(*Hub, string, *session) bool // false: there are too many
	remove    func(*Hub, string, *session)
}

var (
	channelKind = &kind{at: 0, word: "subscribe", leaveWord: "unsubscribe", nameMax: channelBytesMax,
		tooLong: "ERR channel name is too long",
		others:  []int{0, 1},
		add:     func(h *Hub, name string, s *session) bool { h.channels.add(name, s, h.queue.last()); return true },
		remove:  func(h *Hub, name string, s *session) { h.channels.remove(name, s) }}
	patternKind = &kind{at: 1, word: "psubscribe", leaveWord: "punsubscribe", nameMax: patternBytesMax,
		tooLong: "ERR pattern is too long",
		others:  []int{0, 1},
		add:     (*Hub).addPattern,
		remove:  (*Hub).removePattern}
	shardKind = &kind{at: 2, word: "ssubscribe", leaveWord: "sunsubscribe", nameMax: channelBytesMax,
		tooLong: "ERR channel name is too long",
		others:  []int{2},
		add:     func(h *Hub, name string, s *session) bool { h.shards.add(name, s, h.queue.last()); return true },
		remove:  func(h *Hub, name string, s *session) { h.shards.remove(name, s) }}
	kinds = []*kind{channelKind, patternKind, shardKind}
)

func (u *subscriptions) count() int {
	return len(u.names[0]) + len(u.names[1]) + len(u.names[2])
}

// sorted lists names in the order in which they were subscribed to.
func (u *subscriptions) sorted(k *kind) []string {
	names := u.names[k.at]
	return slices.SortedFunc(maps.Keys(names), func(a, b string) int { return cmp.Compare(names[a], names[b]) })
}

// subscribe answers with one confirmation for each name. The first error ends it; the subscriptions before it stay.
func (k *kind) subscribe(s *session, args resp.Args) resp.Reply {
	s.startPushing()
	for _, name := range args[1:] {
		if err := k.join(s, name); err != nil {
			return resp.Fail(err)
		}
		s.confirm(k.confirmation(s, k.word, resp.Bulk(name)))
	}
	return resp.Reply{}
}

func (k *kind) join(s *session, name string) error {
	u := &s.subs
	if _, have := u.names[k.at][name]; have {
		return nil
	}
	if len(name) > k.nameMax {
		return resp.Error(k.tooLong)
	}
	name = strings.Clone(name)
	if !s.hold(len(name) + heldPerSubscription) {
		return resp.Error(errHeld)
	}
	if u.count() >= subscriptionsMax || s.dropped || !k.add(s.srv.hub, name, s) {
		s.letGo(len(name) + heldPerSubscription)
		return resp.Error("ERR too many subscriptions")
	}
	if u.names[k.at] == nil {
		u.names[k.at] = map[string]uint64{}
	}
	u.seq++
	u.names[k.at][name] = u.seq
	s.srv.hub.enter(s)
	u.show(s)
	return nil
}

// unsubscribe leaves the given names, or all of the kind. If there are none to leave, it still answers once.
func (k *kind) unsubscribe(s *session, args resp.Args) resp.Reply {
	names := []string(args[1:])
	if len(names) == 0 {
		names = s.subs.sorted(k)
	}
	for _, name := range names {
		k.leave(s, name)
		s.confirm(k.confirmation(s, k.leaveWord, resp.Bulk(name)))
	}
	if len(names) == 0 {
		s.confirm(k.confirmation(s, k.leaveWord, resp.Nil()))
	}
	s.subs.update(s)
	return resp.Reply{}
}

func (k *kind) leave(s *session, name string) {
	if _, have := s.subs.names[k.at][name]; have {
		delete(s.subs.names[k.at], name)
		s.letGo(len(name) + heldPerSubscription)
		k.remove(s.srv.hub, name, s)
	}
}

// update brings the hub's view up to date after names were left.
func (u *subscriptions) update(s *session) {
	if u.count() == 0 {
		s.srv.hub.leave(s)
	}
	u.show(s)
}

// show copies the counts to where CLIENT LIST of other sessions reads them.
func (u *subscriptions) show(s *session) {
	s.subCount.Store(int32(len(u.names[0])))
	s.psubCount.Store(int32(len(u.names[1])))
	s.ssubCount.Store(int32(len(u.names[2])))
}

func (k *kind) confirmation(s *session, word string, name resp.Reply) resp.Reply {
	n := 0
	for _, at := range k.others {
		n += len(s.subs.names[at])
	}
	return resp.Push(resp.Bulk(word), name, resp.Int(int64(n)))
}

// clear leaves all subscriptions without confirmations; the hub's lock is held.
func (u *subscriptions) clear(s *session) {
	for _, k := range kinds {
		for name := range u.names[k.at] {
			k.leave(s, name)
		}
	}
	u.update(s)
}

// leaveAll is clear for a session that ends.
func (u *subscriptions) leaveAll(s *session) {
	if !s.pushing {
		return
	}
	s.srv.hub.mu.Lock()
	defer s.srv.hub.mu.Unlock()
	u.clear(s)
}

func pubsubChannels(s *session, args resp.Args) resp.Reply { return s.topicNames(askChannels, args) }

func pubsubShardChannels(s *session, args resp.Args) resp.Reply {
	return s.topicNames(askShardChannels, args)
}

// topicNames lists the channels with subscribers anywhere in the cluster, sorted.
func (s *session) topicNames(question string, args resp.Args) resp.Reply {
	matching := "*"
	switch len(args) {
	case 2:
	case 3:
		matching = args[2]
	default:
		return wrongSubcommand("pubsub", args[1])
	}
	names, err := s.askUnion(question, matching)
	if err != nil {
		return resp.Fail(err)
	}
	size := 0
	for _, name := range names {
		size += len(name)
	}
	if size > listedBytesMax {
		return resp.Err(errListed)
	}
	return resp.Bulks(names...)
}

func pubsubNumSub(s *session, args resp.Args) resp.Reply { return s.topicCounts(askNumSub, args[2:]) }

func pubsubShardNumSub(s *session, args resp.Args) resp.Reply {
	return s.topicCounts(askShardNumSub, args[2:])
}

// topicCounts answers a flat array in both protocols, as in Redis.
func (s *session) topicCounts(question string, names resp.Args) resp.Reply {
	size := 0
	for _, name := range names {
		size += len(name)
	}
	if len(names) > countedNamesMax || size > countedBytesMax {
		return resp.Err("ERR too many channels to count: one command names 65,536 of 16 MiB at most")
	}
	answers, err := s.askEverybody(append(resp.Args{question}, names...))
	if err != nil {
		return resp.Fail(err)
	}
	var elems []resp.Reply
	for i, n := range addUp(answers, len(names)) {
		elems = append(elems, resp.Bulk(names[i]), resp.Int(n))
	}
	return resp.Array(elems...)
}

// pubsubNumPat counts distinct patterns of the cluster, not their subscribers, as in Redis.
func pubsubNumPat(s *session, _ resp.Args) resp.Reply {
	sums, err := s.askUnion(askPatterns)
	if err != nil {
		return resp.Fail(err)
	}
	return resp.Int(int64(len(sums)))
}
