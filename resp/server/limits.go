package server

import (
	"time"

	"lockd/resp/server/wire"
)

// Limits of what one client may make the server hold or do. Those that are
// settings can be changed by CONFIG SET; the others are fixed.
const (
	bulkBytesMaxDefault     = 8 << 20   // one argument: setting proto-max-bulk-len
	queryBytesMaxDefault    = 64 << 20  // one command as sent: setting client-query-buffer-limit
	transactionCmdsMax      = 1 << 16   // commands queued by MULTI
	transactionBytesMax     = 12 << 20  // bytes queued by MULTI: they must fit one entry of the log
	heldBytesMax            = 64 << 20  // subscriptions, queued commands and watched keys of one client
	heldBytesOfAllMax       = 512 << 20 // the same of all clients
	watchedKeysMax          = 1 << 16   // keys watched by one client
	watchedBytesMax         = 16 << 20  // bytes of those keys
	subscriptionsMax        = 1 << 17   // channels, patterns and shard channels of one client
	channelBytesMax         = 64 << 10  // name of a channel to subscribe to
	patternBytesMax         = 4 << 10   // pattern to subscribe to
	patternHeadMax          = 64        // bytes of it that are compared before it is matched
	patternsMax             = 1 << 13   // distinct patterns of all clients
	monitorsMax             = 64        // clients that monitor (MONITOR)
	monitorArgBytesMax      = 1 << 20   // bytes shown of each argument
	trackedKeysMaxDefault   = 1000000   // keys that are tracked, for all clients: setting tracking-table-max-keys
	shrinksMax              = 128       // steps, in a round of the janitor, by which the table of tracked keys shrinks
	clientNameBytesMax      = 4 << 10   // CLIENT SETNAME, SETINFO
	clientsMaxDefault       = 10000     // setting maxclients
	pushBytesHardDefault    = 32 << 20  // setting client-output-buffer-limit pubsub
	pushBytesSoftDefault    = 8 << 20
	pushSoftSecondsDefault  = 60
	slowlogLenDefault       = 128     // setting slowlog-max-len
	slowlogMicrosDefault    = 10000   // setting slowlog-log-slower-than
	globStepsMax            = 1 << 14 // comparisons, 3 to 10 ns each, of one pattern with one name
	globStepsPerMessageMax  = 1 << 17 // of all patterns with the channel of a message
	globStepsPerPattern     = 4       // what it takes to look at a pattern at all
	globStepsPerListMax     = 1 << 22 // of one pattern with all channels
	keepAliveSecondsDefault = 300     // setting tcp-keepalive
)

// A run is bounded like what is taken of the input at once.
const (
	pipelineCmdsMax  = wire.PipelineCmdsMax  // commands of one run, which is one Request
	pipelineBytesMax = wire.PipelineBytesMax // bytes of one run, but for its last command
)

// Sizes that trade memory for system calls.
const (
	outputKeep = 64 << 10 // a larger buffer of replies is given back once they are written
	flushBytes = 64 << 10 // replies are written when so many wait, also inside a pipeline
)

// Times of the shell around the sessions.
const (
	janitorEvery  = 50 * time.Millisecond  // see janitor.go
	lingerMax     = 200 * time.Millisecond // how long a closing connection waits for its client to close
	lingerBytes   = 1 << 20                // and how much of what it still sends is read
	cutOffMax     = time.Second            // how long Shutdown waits for the sessions that it has cut off
	acceptBackoff = 50 * time.Millisecond  // pause when accept fails (out of descriptors)
	troubleEvery  = 10 * time.Second       // how often that is logged
)
