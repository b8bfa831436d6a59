package report

import (
	"strings"
	"testing"

	"lockd/jepsen-lite/history"
)

// The share is of the time with faults of all workloads together. Recordings without marks are left out.
func TestQuorumShare(t *testing.T) {
	faulty := []history.Window{{Kind: "kill", Start: 10, End: 20}}
	results := []Result{
		{Workload: "half", History: &history.History{Marked: true, Faults: faulty, Quorums: []history.Quorum{{Start: 0, End: 12}, {Start: 17, End: 30}}}},
		{Workload: "all", History: &history.History{Marked: true, Faults: faulty, Quorums: []history.Quorum{{Start: 0, End: 30}}}},
		{Workload: "old", History: &history.History{Faults: faulty}},
	}
	var b strings.Builder
	quorums(&b, results)
	if want := "a majority served and was connected for 75 % of the time with faults (half: 50 %)\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
	b.Reset()
	quorums(&b, results[2:])
	if b.String() != "" {
		t.Errorf("without marks: %q", b.String())
	}
}

// The report tells how many ends of processes were noticed at once, unless none has ended.
func TestEndsAreTold(t *testing.T) {
	for value, want := range map[string]string{
		`["3","2"]`: "processes ended 6 times, and 4 times another node knew at once\n",
		`["3","0"]`: "processes ended 6 times, and 0 times another node knew at once\n",
		`["0","0"]`: "",
	} {
		h, err := history.Read(strings.NewReader(`{"time":1,"process":-1,"type":"info","op":"ends","value":` + value + "}"))
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if ends(&b, []Result{{History: h}, {History: h}}); b.String() != want {
			t.Errorf("%s: %q", value, b.String())
		}
	}
	if _, err := history.Read(strings.NewReader(`{"time":1,"process":-1,"type":"info","op":"ends","value":["x"]}`)); err == nil {
		t.Error("what is no number was read")
	}
}
