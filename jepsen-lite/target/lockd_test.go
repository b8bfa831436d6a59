package target

import "testing"

// infoNumber matches whole names, and returns 0 if there is no number of that name.
func TestInfoNumber(t *testing.T) {
	const info = "# Raft\r\nnode_id:n1\r\nlast_log_index:120\r\nlast_snapshot_index:7\r\nstate:leader\r\n"
	for name, want := range map[string]int64{
		"last_log_index": 120, "last_snapshot_index": 7, "log_index": 0, "state": 0, "last": 0,
	} {
		if got := infoNumber(info, name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}
