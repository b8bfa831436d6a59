package cluster

import (
	"testing"
	"testing/synctest"
)

// Three nodes elect a leader, and any of them serves any command.
func TestThreeNodesServeEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		leader := c.leader()
		c.expect(leader, "SET a 1", "+OK")
		others := c.others(leader)
		c.expect(others[0], "INCR a", ":2")
		c.expect(others[1], "GET a", "$1 2")
		c.expect(others[1], "INCR a", ":3")
		c.expect(leader, "GET a", "$1 3")
		c.agree()
	})
}
