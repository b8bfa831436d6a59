package server

import (
	"lockd/resp"
	"lockd/resp/server/pubsub"
)

const (
	subscription = resp.PubSub | resp.NoScript | resp.Loading | resp.Stale
	listing      = resp.PubSub | resp.Loading | resp.Stale
)

func pubsubRows() []row {
	sub := func(k *subscribing, leave bool) action {
		run := k.subscribe
		if leave {
			run = k.unsubscribe
		}
		return action{run: run, whileSubscribed: true, hubLocked: true, onSentinel: k != shards}
	}
	return []row{
		{Spec: resp.Spec{Name: "subscribe", Arity: -2, Flags: subscription, Group: "pubsub", Since: "2.0.0",
			Summary: "Listen for messages published to the given channels",
			Syntax:  "channel [channel ...]"}, Run: sub(channels, false)},
		{Spec: resp.Spec{Name: "unsubscribe", Arity: -1, Flags: subscription, Group: "pubsub", Since: "2.0.0",
			Summary: "Stop listening for messages posted to the given channels",
			Syntax:  "[channel [channel ...]]"}, Run: sub(channels, true)},
		{Spec: resp.Spec{Name: "psubscribe", Arity: -2, Flags: subscription, Group: "pubsub", Since: "2.0.0",
			Summary: "Listen for messages published to channels matching the given patterns",
			Syntax:  "pattern [pattern ...]"}, Run: sub(patterns, false)},
		{Spec: resp.Spec{Name: "punsubscribe", Arity: -1, Flags: subscription, Group: "pubsub", Since: "2.0.0",
			Summary: "Stop listening for messages posted to channels matching the given patterns",
			Syntax:  "[pattern [pattern ...]]"}, Run: sub(patterns, true)},
		{Spec: resp.Spec{Name: "ssubscribe", Arity: -2, Flags: subscription, Keys: resp.AllKeys,
			Group: "pubsub", Since: "7.0.0",
			Summary: "Listen for messages published to the given shard channels",
			Syntax:  "shardchannel [shardchannel ...]"}, Run: sub(shards, false)},
		{Spec: resp.Spec{Name: "sunsubscribe", Arity: -1, Flags: subscription, Keys: resp.AllKeys,
			Group: "pubsub", Since: "7.0.0",
			Summary: "Stop listening for messages posted to the given shard channels",
			Syntax:  "[shardchannel [shardchannel ...]]"}, Run: sub(shards, true)},
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

// subscribing is one of the three ways to subscribe, with the words of its confirmations.
type subscribing struct {
	kind      pubsub.Kind
	word      string
	leaveWord string
	counted   []pubsub.Kind // whose number a confirmation says
}

var (
	channels = &subscribing{kind: pubsub.Channel, word: "subscribe", leaveWord: "unsubscribe",
		counted: []pubsub.Kind{pubsub.Channel, pubsub.Pattern}}
	patterns = &subscribing{kind: pubsub.Pattern, word: "psubscribe", leaveWord: "punsubscribe",
		counted: []pubsub.Kind{pubsub.Channel, pubsub.Pattern}}
	shards = &subscribing{kind: pubsub.Shard, word: "ssubscribe", leaveWord: "sunsubscribe",
		counted: []pubsub.Kind{pubsub.Shard}}
)

// subscribe answers with one confirmation for each name. The first error ends it; the subscriptions before it stay.
func (k *subscribing) subscribe(s *session, args resp.Args) resp.Reply {
	s.startPushing()
	for _, name := range args[1:] {
		if err := s.sub.Subscribe(k.kind, name); err != nil {
			return resp.Fail(err)
		}
		k.confirm(s, k.word, resp.Bulk(name))
	}
	return resp.Reply{}
}

// unsubscribe leaves the given names, or all of the kind. If there are none to leave, it still answers once.
func (k *subscribing) unsubscribe(s *session, args resp.Args) resp.Reply {
	names := []string(args[1:])
	if len(names) == 0 {
		names = s.sub.Ordered(k.kind)
	}
	for _, name := range names {
		s.sub.Unsubscribe(k.kind, name)
		k.confirm(s, k.leaveWord, resp.Bulk(name))
	}
	if len(names) == 0 {
		k.confirm(s, k.leaveWord, resp.Nil())
	}
	return resp.Reply{}
}

func (k *subscribing) confirm(s *session, word string, name resp.Reply) {
	n := 0
	for _, of := range k.counted {
		n += s.sub.Count(of)
	}
	s.confirm(resp.Push(resp.Bulk(word), name, resp.Int(int64(n))))
}

// askSubscribers asks all nodes that count a question about subscribers. In a transaction that subscribes the broker
// is locked, and only this node can be asked.
func askSubscribers(s *session, question ...string) ([]resp.Reply, error) {
	if s.exec == nil || !s.exec.underHub {
		return s.srv.counter.Ask(s.ctx, question)
	}
	answers, steps, err := s.srv.counter.AskLocked(question)
	s.charge(steps)
	return answers, err
}

// union returns the sorted union of the lists that nodes answer.
func union(s *session, question ...string) ([]string, error) {
	answers, err := askSubscribers(s, question...)
	if err != nil {
		return nil, err
	}
	return pubsub.Union(answers)
}

func pubsubChannels(s *session, args resp.Args) resp.Reply {
	return topicNames(s, pubsub.Channels, args)
}

func pubsubShardChannels(s *session, args resp.Args) resp.Reply {
	return topicNames(s, pubsub.ShardChannels, args)
}

// topicNames lists the channels with subscribers anywhere in the cluster, sorted.
func topicNames(s *session, question string, args resp.Args) resp.Reply {
	matching := "*"
	switch len(args) {
	case 2:
	case 3:
		matching = args[2]
	default:
		return wrongSubcommand("pubsub", args[1])
	}
	names, err := union(s, question, matching)
	if err != nil {
		return resp.Fail(err)
	}
	return resp.Bulks(names...)
}

func pubsubNumSub(s *session, args resp.Args) resp.Reply {
	return topicCounts(s, pubsub.NumSub, args[2:])
}

func pubsubShardNumSub(s *session, args resp.Args) resp.Reply {
	return topicCounts(s, pubsub.ShardNumSub, args[2:])
}

// topicCounts answers a flat array in both protocols, as in Redis.
func topicCounts(s *session, question string, names resp.Args) resp.Reply {
	size := 0
	for _, name := range names {
		size += len(name)
	}
	if len(names) > countedNamesMax || size > countedBytesMax {
		return resp.Err("ERR too many channels to count: one command names 65,536 of 16 MiB at most")
	}
	answers, err := askSubscribers(s, append([]string{question}, names...)...)
	if err != nil {
		return resp.Fail(err)
	}
	var elems []resp.Reply
	for i, n := range pubsub.Sum(answers, len(names)) {
		elems = append(elems, resp.Bulk(names[i]), resp.Int(n))
	}
	return resp.Array(elems...)
}

// pubsubNumPat counts distinct patterns of the cluster, not their subscribers, as in Redis.
func pubsubNumPat(s *session, _ resp.Args) resp.Reply {
	sums, err := union(s, pubsub.Patterns)
	if err != nil {
		return resp.Fail(err)
	}
	return resp.Int(int64(len(sums)))
}
