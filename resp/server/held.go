package server

import (
	"strings"
	"sync/atomic"

	"lockd/resp"
)

// held counts what a client makes the node keep between its commands, with what it takes to
// keep it: subscriptions, the commands queued by MULTI, watched keys. Only the client's session
// changes it.
type held struct {
	bytes atomic.Int64
	ofAll *atomic.Int64 // of all clients of the server
}

// What it takes to keep them, beside their bytes.
const (
	heldPerSubscription = 256
	heldPerCommand      = 64
	heldPerArg          = 16
	heldPerWatch        = 64
)

const errHeld = "ERR this would take too much memory: subscriptions, queued commands and watched keys " +
	"may take 64 MiB of a client and 512 MiB of all"

// hold counts what is to be kept, if there is room for it.
func (h *held) hold(bytes int) bool {
	n := int64(bytes)
	if h.bytes.Load()+n > heldBytesMax {
		return false
	}
	if h.ofAll.Add(n) > heldBytesOfAllMax {
		h.ofAll.Add(-n)
		return false
	}
	h.bytes.Add(n)
	return true
}

// letGo takes back what hold has counted.
func (h *held) letGo(bytes int) {
	h.bytes.Add(-int64(bytes))
	h.ofAll.Add(-int64(bytes))
}

// argBytes is what arguments take, without and with what keeps them.
func argBytes(args resp.Args) (bytes, kept int) {
	for _, a := range args {
		bytes += len(a)
	}
	return bytes, bytes + heldPerCommand + len(args)*heldPerArg
}

// cloneArgs copies arguments that are to be kept: they are parts of all that arrived
// with them.
func cloneArgs(args resp.Args) resp.Args {
	all := strings.Join(args, "")
	kept := make(resp.Args, len(args))
	for i, a := range args {
		kept[i], all = all[:len(a)], all[len(a):]
	}
	return kept
}
