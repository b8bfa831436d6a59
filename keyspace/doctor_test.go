package keyspace

import (
	"strings"
	"testing"

	"lockd/resp"
	"lockd/resp/sight"
)

// What the node that was asked has seen is told, and since when; what cannot be read is an error.
func TestDoctorTakesSightings(t *testing.T) {
	m, at := newMachine(), resp.Stamp{Index: 1, Tick: 1, Wall: 1e15}
	mustApply(t, m, at, 0, "SET k v")
	report := sight.Report{Node: "n1", SinceMs: 1e12, Sightings: []sight.Sighting{
		{Kind: sight.Polls, Key: "order:7", Hash: sight.Hash("order:7"), Tokens: []uint64{1}, Count: 60},
	}}
	for sightings, want := range map[string]string{
		report.String(): `"node" => "n1" 3# "seen-since" => "2001-09-09T01:46:40.000Z"`,
		"":              `"node" => (nil) 3# "seen-since" => (nil)`,
		"\x05none":      "ERR what the node has seen cannot be read: string exceeds the input",
	} {
		for _, command := range []string{"LOCKS DOCTOR", "LOCKS ADVICE"} {
			req := request(0, command)
			req.Sightings = sightings
			got := strings.Join(show(m.View(at, req).Replies[0]), " ")
			if !strings.Contains(got, want) {
				t.Errorf("%s with %q answers %s", command, sightings, got)
			}
			if finds := strings.Contains(got, "polling"); finds != (command == "LOCKS DOCTOR" && sightings == report.String()) {
				t.Errorf("%s with %q finds: %v", command, sightings, finds)
			}
		}
	}
}
