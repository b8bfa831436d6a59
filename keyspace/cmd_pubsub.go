package keyspace

import "lockd/resp"

var pubsubRows = []resp.Row[command]{
	{Spec: resp.Spec{
		Name: "publish", Arity: 3,
		Flags: resp.PubSub | resp.Loading | resp.Stale | resp.Fast | resp.MayReplicate | resp.CountsReceivers,
		Group: "pubsub", Since: "2.0.0", Summary: "Post a message to a channel",
		Syntax: "channel message",
	}, Run: cmdPublish},
	{Spec: resp.Spec{
		Name: "spublish", Arity: 3,
		Flags: resp.PubSub | resp.Loading | resp.Stale | resp.Fast | resp.MayReplicate | resp.CountsReceivers,
		Keys:  resp.FirstKey,
		Group: "pubsub", Since: "7.0.0", Summary: "Post a message to a shard channel",
		Syntax: "shardchannel message",
	}, Run: cmdSpublish},
}

// cmdPublish sends a message to the subscribers of every node. Its receivers are
// counted by the session, on the node that serves the client; inside a script the
// answer is always 0, because it must be the same on every node.
func cmdPublish(c *ctx, args resp.Args) resp.Reply {
	c.m.spend(publishWork)
	c.publish(resp.MessageChannel, args[1], args[2])
	return resp.Int(0)
}

func cmdSpublish(c *ctx, args resp.Args) resp.Reply {
	c.m.spend(publishWork)
	c.publish(resp.MessageShard, args[1], args[2])
	return resp.Int(0)
}
