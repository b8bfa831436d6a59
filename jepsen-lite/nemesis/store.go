package nemesis

import (
	"fmt"
	"strings"

	"lockd/jepsen-lite/target"
)

// store has one write of a node's disk fail. The node must stop.
func store(f *Field, fault Fault) (string, func()) {
	who, how, _ := strings.Cut(fault.Variant, " ")
	node := f.victims(who, fault.Dice)[0]
	a, err := f.Target.Arm(node, target.Strike{Point: target.LogSync, Act: target.Act(how), Skip: int(fault.Dice % 20)})
	if err != nil {
		return fmt.Sprintf("store: %v", err), nil
	}
	return fmt.Sprintf("store %s %s", node, a), func() {
		f.Target.Disarm(a)
		f.restartAll([]string{node})
	}
}
