package report

import (
	"fmt"
	"io"
	"math"
)

// QuorumShare returns the share of the time with faults, from the first to the end of the last one, in which a majority
// served and was connected. It returns false if there was no fault, or if the recording does not tell.
func QuorumShare(results []Result) (share float64, ok bool) {
	var there, all int64
	for _, r := range results {
		if start, end := r.History.Broken(); r.History.Marked {
			there += r.History.QuorumTime(start, end)
			all += end - start
		}
	}
	return float64(there) / float64(max(all, 1)), all > 0
}

// quorums writes the share of all workloads, and the least share of one.
func quorums(w io.Writer, results []Result) {
	share, ok := QuorumShare(results)
	if !ok {
		return
	}
	least, of := math.Inf(1), ""
	for i, r := range results {
		if s, ok := QuorumShare(results[i : i+1]); ok && s < least {
			least, of = s, r.Workload
		}
	}
	fmt.Fprintf(w, "a majority served and was connected for %.0f %% of the time with faults (%s: %.0f %%)\n",
		100*share, of, 100*least)
}

// ends writes how many processes have ended, and how many of these ends other nodes noticed at once.
func ends(w io.Writer, results []Result) {
	ended, noticed := 0, 0
	for _, r := range results {
		ended, noticed = ended+r.History.Ended, noticed+r.History.Noticed
	}
	if ended > 0 {
		fmt.Fprintf(w, "processes ended %d times, and %d times another node knew at once\n", ended, noticed)
	}
}
