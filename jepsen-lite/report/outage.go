package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"sort"
	"text/tabwriter"
	"time"

	"lockd/jepsen-lite/history"
	"lockd/jepsen-lite/model"
)

// Outage is a time between two successful writes of a workload while a fault was on.
type Outage struct {
	Length   time.Duration
	Workload string
	What     string // the fault, as the history describes it
}

// Outages finds the longest outage for each kind of fault. An outage during faults of several kinds counts for each of
// them. None lasts beyond the end of the clients' work.
func Outages(results []Result) map[string]Outage {
	longest := map[string]Outage{}
	for _, r := range results {
		ends := writes(r.History)
		for _, w := range r.History.Faults {
			if w.Kind == "quiet" {
				continue // no write was requested
			}
			// The first write that ends in the fault ends an outage, and so does each one
			// after it, up to the first that ends after the fault.
			for i := sort.Search(len(ends), func(i int) bool { return ends[i] > w.Start }); i < len(ends); i++ {
				if i == 0 {
					continue
				}
				length := time.Duration(min(ends[i], r.History.Worked) - ends[i-1])
				if length > longest[w.Kind].Length {
					longest[w.Kind] = Outage{length, r.Workload, w.What}
				}
				if ends[i] > w.End {
					break
				}
			}
		}
	}
	return longest
}

// writes returns the times at which successful writes ended, in order.
func writes(h *history.History) []int64 {
	var ends []int64
	for _, o := range h.Ops {
		if o.OK() && model.Writes(&o) {
			ends = append(ends, o.End)
		}
	}
	slices.Sort(ends)
	return ends
}

// Silence returns the longest time without a successful write: between two of them, or from the last one to the last
// try. Time after the clients' work does not count.
func Silence(h *history.History) time.Duration {
	var tried int64
	for _, o := range h.Ops {
		if model.Writes(&o) {
			tried = max(tried, o.Start)
		}
	}
	return gap(append(writes(h), tried), 0, h.Worked)
}

// gap returns the longest time between two of these times, which are in order, or from start to the first one, within
// the clients' work, which ended at worked.
func gap(ends []int64, from, worked int64) time.Duration {
	longest := int64(0)
	for _, end := range ends {
		longest, from = max(longest, min(end, worked)-from), end
	}
	return time.Duration(longest)
}

// outages writes a table of the outages, and the totals of all workloads.
func outages(w io.Writer, results []Result) {
	faults, sum := map[string]int{}, Figures{}
	for _, r := range results {
		f := Count(r.History)
		sum.OK, sum.Fail, sum.Info, sum.Faults = sum.OK+f.OK, sum.Fail+f.Fail, sum.Info+f.Info, sum.Faults+f.Faults
		for kind, n := range f.Kinds {
			faults[kind] += n
		}
	}
	longest := Outages(results)
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "fault\ttimes\tlongest outage\tof workload\twhile")
	for _, kind := range slices.Sorted(maps.Keys(faults)) {
		o := longest[kind]
		fmt.Fprintf(tw, "%s\t%d\t%s\t%s\t%s\n",
			kind, faults[kind], o.Length.Round(time.Millisecond), o.Workload, o.What)
	}
	_ = tw.Flush()
	fmt.Fprintf(w, "in all: %d operations, %d of them unknown, and %d faults\n",
		sum.OK+sum.Fail+sum.Info, sum.Info, sum.Faults)
}
