// Package nemesis breaks the cluster, after a schedule that a seed decides.
//
// Its law: every fault ends, and when the last one has ended the cluster is whole:
// all processes run, all links are healthy. The schedule (when, what, for how long,
// and the dice by which a victim is chosen) depends on the seed alone; who leads at
// that moment is the run's. Each fault is written into the history when it begins
// and when it has ended. What several faults do together in one step harms at most a
// minority of the nodes, unless the step is a wide one.
package nemesis
