package replica

import (
	"testing"
	"time"

	"lockd/cluster/figures"
	"lockd/resp"
)

// The requests of an entry share its time by their work.
func TestShareOut(t *testing.T) {
	results := []resp.Result{{Work: 90}, {Work: 0}, {Work: 9}}
	shareOut(&figures.Executions{}, make([]resp.Request, 3), results, 100*time.Millisecond)
	for i, want := range []time.Duration{90, 1, 9} {
		if results[i].TookNs != int64(want*time.Millisecond) {
			t.Errorf("request %d took %d", i, results[i].TookNs)
		}
	}
}
