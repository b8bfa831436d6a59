package console

import "time"

// Limits of what browsers may make the node hold or do.
const (
	rowsMax        = 200 // locks of a table
	holdersShown   = 5   // holders of a lock in the table of locks
	peopleShown    = 200 // holders and waiters of a lock on its own page
	eventsShown    = 100 // of a lock's history
	timelineEvents = 40  // the newest of them that are drawn
	timelineRows   = 30  // tokens that are drawn
	findingsShown  = 200 // of the doctor's page
	searchBytesMax = 256
	keyBytesMax    = 4 << 10
	formBytesMax   = 16 << 10
	headerBytesMax = 32 << 10
	reasonBytesMax = 1024
	shownRunesMax  = 1200    // of a name
	connsMax       = 48      // connections of browsers; others wait to be accepted
	watchersMax    = 32      // browsers that are told of changes
	asksMax        = 4       // questions to the node on their way
	answerBytesMax = 4 << 20 // to a question
)

// Times.
const (
	headerTimeMax  = 5 * time.Second  // for a browser to send the header of a request
	readTimeMax    = 10 * time.Second // and all of it
	writeTimeMax   = 30 * time.Second // for a page to be made and read
	frameTimeMax   = 10 * time.Second // for a watcher to take a change
	idleTimeMax    = 30 * time.Second // between two requests
	askTimeMax     = 10 * time.Second // for the node to answer all that a page asks
	profileTimeMax = 2 * time.Minute
	watchEvery     = time.Second // between two rounds of questions for those who watch
	watchPauseMax  = 10 * time.Second
	watchTimeMax   = time.Hour // then the browser asks again
	silenceMax     = 15 * time.Second
	acceptPause    = 50 * time.Millisecond // when no connection can be accepted (out of descriptors)
	acceptLogged   = time.Minute           // how often that is logged
)

// watchShare bounds the time that questions for watchers take: one part in so many.
const watchShare = 20
