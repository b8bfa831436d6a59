// Package nemesis breaks the cluster by a schedule that a seed decides.
//
//	Plan(seed) ── Step ── Fault          what happens when, to be carried out or written to schedule.json
//	                         │
//	Runner.Run ── field ── Kind.Start    starts each fault of a step, with a field of its own, and stops it
//	                │
//	                ├─ Target            the cluster under test
//	                ├─ choice            victims: within the harmLimit of the step
//	                ├─ network           the fault's own layer of the links
//	                ├─ extraClients      connections besides those of the workload
//	                ├─ deadline          the end of the run's time
//	                └─ findings          what a fault itself sees go wrong
//
//	Watch                                has the history tell when nodes ran, served and reached each other
//
// A Kind is a row of Table. Its Start does the harm and returns what it did, for the history, and a function that stops
// it. The kinds are in files by what they harm: process, stop, port, network, leadership, frame; damage, point, clock;
// install, load, descriptors, hostile, quiet; build; scenario; operator, run, ledger.
//
// Every fault ends, and when the last one has ended the cluster is whole: all processes run, all links are healthy. The
// schedule (times, kinds, and the random numbers that choose victims) follows from the seed alone; which node leads at
// that moment does not. All faults of a step together harm at most a minority of the nodes, unless the step is wide.
package nemesis
