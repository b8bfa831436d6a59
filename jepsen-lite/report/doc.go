// Package report tells what a run did and found: lines while it runs, a table at its end, and a page with pictures.
//
// Its figures come from the history alone, so that a recorded run gives the same report again. Only the picture of who
// led comes from the nodes' logs.
package report
