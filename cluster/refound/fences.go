package refound

import (
	"errors"
	"fmt"
	"time"

	"lockd/cluster/clock"
)

// The fences of a new cluster begin above all that another cluster with the same past can have given.
const (
	// fencesPerMs is above the rate of any machine: creating a key takes longer than 1/4 µs.
	fencesPerMs = 1 << 12
	// FenceLeap is added to the operator's number.
	FenceLeap = 1 << 40
	// fenceMax is the number from which a double cannot represent every fence.
	fenceMax = 1 << 53
)

// FenceAboveMax is the highest fence that Fork.FenceAbove may name.
const FenceAboveMax = fenceMax - FenceLeap - 1

// FenceEpoch is the origin of fences derived from the time, in milliseconds since 1970: 2026-01-01.
const FenceEpoch = 1_767_225_600_000

// wallErrorMax bounds the known error of a clock from which fences are derived.
const wallErrorMax = 4 * time.Second

// fenceByTime returns a fence that a cluster whose fences began by the clock has not reached at a wall time in
// milliseconds.
func fenceByTime(ms int64) uint64 { return uint64(max(ms-FenceEpoch, 0)) * fencesPerMs }

// ErrFenceAbove marks the errors of Restore and Recover that a different Fork.FenceAbove resolves.
var ErrFenceAbove = errors.New("--fence-above is missing or wrong")

// fenceError is an ErrFenceAbove with its own text.
type fenceError struct{ error }

func (fenceError) Is(target error) bool { return target == ErrFenceAbove }

func fencef(format string, args ...any) error { return fenceError{fmt.Errorf(format, args...)} }

// past describes the cluster that a new one continues.
type past struct {
	last uint64 // the highest fence in its state
	ms   int64  // wall time of its newest entry, since 1970; 0: unknown
}

// reading is a reading of a clock: the wall time in milliseconds, and its possible error.
type reading struct {
	ms, errMs int64
	unsure    error // why its error is unbounded; nil: it is bounded
}

// readWall reads a clock, whose error the system may know.
func readWall(clock clock.Clock, wallError func() (time.Duration, error)) reading {
	r := reading{ms: clock.Wall() / 1000}
	off, err := wallError()
	switch {
	case err != nil:
		r.unsure = err
	case off > wallErrorMax:
		r.unsure = fmt.Errorf("the clock of this machine may be off by %s", off)
	default:
		r.errMs = off.Milliseconds() + 1
	}
	return r
}

// doubt returns the reason why fences cannot be derived from the clock; nil: they can.
func (r reading) doubt(p past) error {
	switch {
	case r.unsure != nil:
		return r.unsure
	case p.ms > r.ms+r.errMs, r.ms < FenceEpoch:
		return fmt.Errorf("the clock of this machine says %s, and the data are from %s", formatTime(r.ms),
			formatTime(max(p.ms, FenceEpoch)))
	case p.last > fenceByTime(r.ms-r.errMs):
		return fmt.Errorf("the data have fences up to %d, beyond what follows from the time", p.last)
	}
	return nil
}

// fenceAbove returns a fence that no cluster with this past has given yet. above is the operator's bound on the fences
// of all such clusters; nil: none.
func fenceAbove(p past, now reading, above *uint64) (uint64, error) {
	doubt := now.doubt(p)
	byTime := fenceByTime(now.ms + now.errMs)
	fence := byTime
	switch {
	case above == nil && doubt != nil:
		return 0, fencef("the fence above which the new cluster begins is not known: %w; give --fence-above N: if no "+
			"cluster was made of these data before, --fence-above %d; else N is the number that the last restore or recovery "+
			"of them printed", doubt, firstAbove(p, now))
	case above != nil && *above < p.last:
		return 0, fencef("--fence-above %d is too low: the data have fences up to %d", *above, p.last)
	case above != nil:
		if fence = *above + FenceLeap; now.unsure == nil {
			fence = max(fence, byTime)
		}
	}
	if fence >= fenceMax || above != nil && *above > FenceAboveMax {
		return 0, fencef("the new cluster would begin above the fence %d, more than a double holds: does the clock of this "+
			"machine (%s) go wrong, or is --fence-above wrong? It is at most %d", fence, formatTime(now.ms),
			uint64(FenceAboveMax))
	}
	return fence, nil
}

// clockTrustMax bounds the time after the data at which a clock with unknown error still serves as a hint.
const clockTrustMax = 366 * 24 * time.Hour

// firstAbove returns a --fence-above for data from which no cluster was made before. It is derived from the clock as
// well, if that seems right, so that even a number that is used twice by mistake probably rises.
func firstAbove(p past, now reading) uint64 {
	if age := now.ms - p.ms; p.ms > 0 && age >= 0 && age <= clockTrustMax.Milliseconds() {
		return max(p.last, min(fenceByTime(now.ms), FenceAboveMax))
	}
	return p.last
}

// formatTime formats a wall time in milliseconds for people.
func formatTime(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }
