package peer

import "time"

// after is the moment that lies d ahead, for a deadline of a connection.
func after(d time.Duration) time.Time { return time.Now().Add(d) }
