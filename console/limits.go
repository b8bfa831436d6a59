package console

import "time"

// Limits of what browsers may make the node hold or do.
const (
	rowsMax        = 200 // locks of a table
	holdersShown   = 5   // holders of a lock in the table of locks
	peopleShown    = 200 // holders and waiters of a lock on its own page
	eventsShown    = 100 // of a lock's history
	timelineEvents = 40  // the newest of these events in the timeline
	timelineRows   = 30  // tokens in the timeline
	findingsShown  = 200 // on the doctor's page
	searchBytesMax = 256
	keyBytesMax    = 4 << 10
	formBytesMax   = 16 << 10
	headerBytesMax = 32 << 10
	reasonBytesMax = 1024
	shownRunesMax  = 1200    // of a name
	connsMax       = 48      // connections of browsers; others wait to be accepted
	watchersMax    = 32      // browsers that watch a page
	asksMax        = 4       // questions to the node on their way
	answerBytesMax = 4 << 20 // of the answer to a question
)

// Times.
const (
	headerTimeMax  = 5 * time.Second  // for a browser to send the header of a request
	readTimeMax    = 10 * time.Second // and to send all of it
	writeTimeMax   = 30 * time.Second // to make a page and send it
	frameTimeMax   = 10 * time.Second // for a watcher to take a change
	idleTimeMax    = 30 * time.Second // between two requests
	askTimeMax     = 10 * time.Second // for the node to answer all commands of a question
	profileTimeMax = 2 * time.Minute
	watchEvery     = time.Second // between two rounds of questions for watchers
	watchPauseMax  = 10 * time.Second
	watchTimeMax   = time.Hour // then the browser connects again
	silenceMax     = 15 * time.Second
	acceptPause    = 50 * time.Millisecond // when no connection can be accepted (out of descriptors)
	acceptLogged   = time.Minute           // how often that is logged
)

// watchShare bounds the time that questions for watchers take, to one part in watchShare.
const watchShare = 20
