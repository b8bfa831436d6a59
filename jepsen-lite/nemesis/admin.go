package nemesis

import "time"

// transfer hands leadership to another node.
func transfer(f *Field, fault Fault) (string, func()) {
	once := func() {
		to := f.pick("follower", fault.Dice+uint64(time.Now().UnixNano()))[0]
		// refused when the cluster is broken
		_, _ = f.Target.Do(to, 2*time.Second, "LOCKD", "TRANSFER", f.Target.ID(to))
	}
	if fault.Variant == "often" {
		return "transfer often", repeat(400*time.Millisecond, once)
	}
	once()
	return "transfer once", nil
}

// snapshot has all nodes take a snapshot. The kill variant kills a node at some
// moment meanwhile.
func snapshot(f *Field, fault Fault) (string, func()) {
	victim := ""
	if fault.Variant == "kill" {
		victim = f.victims("any", fault.Dice)[0]
	}
	for _, n := range f.Target.Nodes() {
		go func() { _, _ = f.Target.Do(n, 5*time.Second, "LOCKD", "SNAPSHOT") }()
	}
	if victim == "" {
		return "snapshot all", nil
	}
	time.Sleep(time.Duration(fault.Dice%20_000) * time.Microsecond)
	f.Target.Kill(victim)
	return "snapshot kill " + victim, func() { _ = f.Target.Restart(victim) }
}

// member kills a node and loses its disk; at the end the others remove it, and a new
// one takes its place under a new id.
func member(f *Field, fault Fault) (string, func()) {
	node := f.victims(fault.Variant, fault.Dice)[0]
	f.Target.Replace(node)
	return "member " + node + " replaced", func() { _ = f.Target.Restart(node) }
}
