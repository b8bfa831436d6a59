// Package report tells a person what a run did and found: lines while it runs, a
// table at its end, and a page with a timeline.
//
// Its law: figures come from the history alone, so that a recorded run gives the
// same report again. Only who led, in the picture, comes from the nodes' logs.
package report
