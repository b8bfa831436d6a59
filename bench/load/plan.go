package load

// plan is the part of a measurement that all its clients share.
type plan struct {
	clients   int
	pipeline  int // operations in a step
	keys      int
	valueSize int
	wait      int         // replicas that each write waits for
	inTurn    bool        // one client for each server, and one of them at a time
	shared    *sharedLock // of workload line
	cpu       CPU         // of the target's servers; nil: not counted
}

// Names of keys. They share a prefix that tells them from other keys.
const (
	keyPrefix   = "bench:"
	dataPrefix  = keyPrefix + "key:"
	lockPrefix  = keyPrefix + "lock:"
	stockKey    = keyPrefix + "stock"
	channelName = keyPrefix + "channel:"
	keyDigits   = 12
)

// contendedLock is the number of the lock that all clients of contend want, which lockOf gives to no client.
const contendedLock = 999_999_999_999

// leaseMs is the lease of locks, longer than any step may take.
const leaseMs = 60_000

// appendDigits appends i with leading zeros.
func appendDigits(out []byte, i int) []byte {
	out = append(out, "000000000000"...)
	for at := len(out) - 1; i > 0; at-- {
		out[at] = byte('0' + i%10)
		i /= 10
	}
	return out
}

// appendValue appends the value that key i has throughout: its number, repeated, so that a reply for another key is
// noticed.
func appendValue(out []byte, i, size int) []byte {
	var digits [keyDigits]byte
	appendDigits(digits[:0], i)
	for ; size > keyDigits; size -= keyDigits {
		out = append(out, digits[:]...)
	}
	return append(out, digits[keyDigits-size:]...)
}

// lockOf returns the number of the lock that client id takes at its turn, which no other client takes.
func (p *plan) lockOf(id, turn int) int {
	own := max(p.keys/p.clients, p.pipeline)
	return id + p.clients*(turn%own)
}
