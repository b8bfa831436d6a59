package main

import (
	"fmt"
	"slices"
)

// least leaves out as many of n things as it can while the rest still fails, by delta debugging: it tries none at all,
// then halves, then smaller and smaller parts, and all but one of these. All together are known to fail. In the result
// no single thing can be left out, as far as fails can tell. Nothing is tried twice. After an error it returns the
// smallest result so far.
func least(all []int, fails func(some []int) (bool, error)) ([]int, error) {
	asked := map[string]bool{fmt.Sprint(all): true}
	first := func(candidates [][]int) (some []int, failed bool, err error) {
		for _, some := range candidates {
			name := fmt.Sprint(some)
			if asked[name] {
				continue
			}
			asked[name] = true
			if failed, err := fails(some); failed || err != nil {
				return some, failed, err
			}
		}
		return nil, false, nil
	}
	if some, failed, err := first([][]int{{}}); failed {
		return some, nil
	} else if err != nil {
		return all, err
	}
	for parts := 2; len(all) > 1; {
		alone, without := split(all, parts)
		next := 2
		some, failed, err := first(alone)
		if !failed && err == nil {
			next = max(parts-1, 2)
			some, failed, err = first(without)
		}
		switch {
		case err != nil || !failed && parts == len(all):
			return all, err
		case failed:
			all, parts = some, min(next, len(some))
		default:
			parts = min(2*parts, len(all))
		}
	}
	return all, nil
}

// split makes parts of about the same length, and returns each part alone, and all things without each part.
func split(all []int, parts int) (alone, without [][]int) {
	for i := range parts {
		from, to := i*len(all)/parts, (i+1)*len(all)/parts
		alone = append(alone, all[from:to])
		without = append(without, slices.Concat(all[:from], all[to:]))
	}
	return alone, without
}
