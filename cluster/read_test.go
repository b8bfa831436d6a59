package cluster

import (
	"testing"
	"testing/synctest"
	"time"

	"lockd/cluster/request"
)

// A read asks the member that answered last, and the other one as soon as that one is
// silent for a moment: so a member that is cut off delays one read, and only so long.
func TestReadAsksTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		leader := c.leader()
		time.Sleep(5 * time.Second) // the roster is complete
		c.expect(leader, "SET k v", "+OK")
		took := func() time.Duration {
			start := time.Now()
			c.expect(leader, "GET k", "$1 v")
			return time.Since(start)
		}
		for i, silent := range append(c.others(leader), c.others(leader)...) {
			c.net.Partition([]string{silent.addr}, []string{leader.addr})
			first, second := took(), took()
			if first != request.HedgeAfter && i > 0 || first > request.HedgeAfter || second > 0 {
				t.Errorf("%s is silent: a read took %s, the next one %s; want %s (the first time it may be nothing), then nothing",
					silent.id, first, second, request.HedgeAfter)
			}
			c.net.Heal()
			time.Sleep(5 * time.Second) // its answers of before arrive
			c.leader()
		}
	})
}
