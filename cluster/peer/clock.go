package peer

import "time"

// after returns the time d from now, for a connection's deadline.
func after(d time.Duration) time.Time { return time.Now().Add(d) }
