package clustertest

import (
	"fmt"
	"time"
)

// Strike is a fault at a point of a node, in the words of package fault.
type Strike struct {
	Point string        // one of fault.Points
	Act   string        // fault.ActKill and so on
	Stall time.Duration // of fault.ActStall; the most of fault.ActSlow
	Skip  int           // how often the point lets pass before
}

// Arm arms a fault in the process of a node that runs, instead of the one that is armed at its point. It strikes once,
// unless it is slow; then struck is closed. It is gone with the process.
func (w *World) Arm(id string, s Strike) (struck <-chan struct{}, err error) {
	m, err := w.machine(id)
	if err != nil {
		return nil, err
	}
	p := m.running()
	if p == nil {
		return nil, fmt.Errorf("%s does not run", id)
	}
	return p.faults.Arm(s.Point, s.Act, s.Stall, s.Skip)
}

// Disarm disarms all points of a node.
func (w *World) Disarm(id string) {
	if m, err := w.machine(id); err == nil {
		if p := m.last(); p != nil {
			p.faults.Reset()
		}
	}
}
