// Package mutation makes mutants of lockd's packages: the same code with one small mistake, which some test must notice.
//
//	Find ── Mutant           every mistake of the table of kinds, with an id that other lines do not change
//	  │
//	Set.Overlay              one build that has them all, each behind a question to a variable of the environment
//	  │
//	Runner ── binary         the test binaries of that build: which tests reach a mutant, and which one fails of it
//	  └────── simulator      jepsen-lite of that build, for mutants that no test notices
//
//	Judged                   equivalent.txt: mutants that do nothing wrong, with the reason
//
// The files are load, kinds, find, schema, binary, runner, judged, simulator. A mutant is built for many test packages
// at once (Packages): those of its own package come first, then those of packages that use it. Only tests that reach the
// mutant run, the short ones first, until one fails.
package mutation
