package pubsub

import "time"

// Limits on subscriptions, and on the work of finding out which subscribers get a message.
const (
	subscriptionsMax       = 1 << 17   // channels, patterns and shard channels of one client
	channelBytesMax        = 64 << 10  // name of a channel to subscribe to
	patternBytesMax        = 4 << 10   // pattern to subscribe to
	patternHeadMax         = 64        // bytes of its literal prefix that are looked up before matching
	patternsMax            = 1 << 13   // distinct patterns of all clients
	patternSumBytes        = 16        // of the hash by which nodes compare patterns
	listedAtOnce           = 1 << 16   // steps of listing channels before others may use the broker
	listedBytesMax         = 16 << 20  // bytes of the names that PUBSUB CHANNELS lists
	globStepsMax           = 1 << 14   // comparisons of one pattern with one name
	globStepsPerMessageMax = 1 << 17   // of all patterns with the channel of a message
	globStepsPerPattern    = 4         // the cost of looking at a pattern
	globStepsPerListMax    = 1 << 22   // of one pattern with all channels
	globStepsBehindMax     = 1 << 26   // of all patterns since the queue was last empty
	queuedMax              = 1 << 19   // messages waiting for delivery to subscribers
	queuedBytesMax         = 256 << 20 // their bytes
	deliveriesAtOnce       = 256       // subscribers that get a message before others may use the broker
	countRoundBytesMax     = 1 << 20   // bytes of channels in one question that serves several publishers

	subscriptionBytes = 256 // of memory that a subscription takes beside its name

	countStaleMax = 100 * time.Millisecond // age at which a count of receivers is taken again
)
