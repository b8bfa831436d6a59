package server

import "time"

// Clock tells the wall clock. It serves what an operator reads (uptime, ages,
// SLOWLOG) and measures how long commands took; no lease is judged by it.
type Clock func() time.Time

// wallClock is the one place of this package where time is read.
var wallClock Clock = time.Now
