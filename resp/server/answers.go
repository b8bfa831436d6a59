package server

import (
	"context"

	"lockd/resp"
)

// Answer answers a question of another node's server about this node's clients. It blocks until ctx ends at most. It
// is safe for concurrent use, also before there is a server.
func (h *Hub) Answer(ctx context.Context, question resp.Args) resp.Reply {
	server, what := h.server.Load(), question[1:]
	switch {
	case question[0] == askPing:
		return resp.OK()
	case question[0] == askReceivers:
		counts := make([]resp.Reply, len(what))
		for i, message := range what {
			counts[i] = resp.Int(h.receiversOf(message))
		}
		return resp.Array(counts...)
	case question[0] == askKill && server != nil:
		return server.answerKill(what)
	case question[0] == askUnblock && server != nil:
		return server.answerUnblock(ctx, what)
	case question[0] == askKill || question[0] == askUnblock:
		return resp.Int(0) // no client has connected yet
	}
	return h.answerCount(question)
}
