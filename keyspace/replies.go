package keyspace

import (
	"lockd/keyspace/value"
	"lockd/resp"
)

// orNil is the error of a lookup, or nil for a key that is absent.
func orNil(err error) resp.Reply {
	if err != nil {
		return resp.Fail(err)
	}
	return resp.Nil()
}

// orZero is the answer of a count where there is nothing, or the error.
func orZero(err error) resp.Reply {
	if err != nil {
		return resp.Fail(err)
	}
	return resp.Int(0)
}

// listable counts the work of listing n members for a reply, or says why that is too
// much.
func (c *ctx) listable(n int) error {
	switch {
	case int64(n)*memberReplyBytes > replyBytesMax:
		return resp.Error(errReplyTooLarge)
	case !c.m.affords(value.VisitWork * int64(n)):
		return resp.Error(errWorkMeter)
	}
	return nil
}

// What a member takes in a reply, with its score or without, beside its own bytes.
var (
	memberReplyBytes = resp.Bulk("").Size()
	scoredReplyBytes = memberReplyBytes + resp.Double(0).Size()
)

// memberReplies lists members, or members and scores in turn.
func memberReplies(members []value.Scored, withScores bool) []resp.Reply {
	items := make([]resp.Reply, 0, 2*len(members))
	for _, m := range members {
		items = append(items, resp.Bulk(m.Member))
		if withScores {
			items = append(items, resp.Double(m.Score))
		}
	}
	return items
}
