package load

import (
	"context"
	"sync"
	"sync/atomic"
)

// batchWorkers is the number of connections that fill at the same time.
const batchWorkers = 8

// inBatches makes workers work through n keys, batch by batch, and returns the first error. Each worker opens its
// resources and closes them at its end.
func inBatches(
	ctx context.Context,
	n, batch int,
	open func(context.Context) (work func(from, to int) error, finish func(), err error),
) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var running sync.WaitGroup
	for range min(batchWorkers, (n+batch-1)/batch) {
		running.Go(func() {
			work, finish, err := open(ctx)
			if err != nil {
				cancel(err)
				return
			}
			defer finish()
			for ctx.Err() == nil {
				from := int(next.Add(int64(batch))) - batch
				if from >= n {
					return
				}
				if err := work(from, min(from+batch, n)); err != nil {
					cancel(err)
				}
			}
		})
	}
	running.Wait()
	return context.Cause(ctx)
}
