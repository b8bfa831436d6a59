package lockuse

import (
	"reflect"
	"strings"
	"testing"

	"lockd/resp"
)

func TestTemplates(t *testing.T) {
	for key, want := range map[string]string{
		"order:42":   "order:*",
		"m1":         "m*",
		"lock":       "lock",
		"":           "",
		"42":         "*",
		"a1b22c":     "a*b*c",
		"2024-01-02": "*-*-*",
		"user:7f3c9a12-5b0e-4c1d-9a2b-0123456789ab:cart": "user:*:cart",
		"7F3C9A12-5B0E-4C1D-9A2B-0123456789AB":           "*",
		"job:deadbeef01":                                 "job:*",
		"job:deadbeef":                                   "job:deadbeef", // a word
		"job:deadbeef01x":                                "job:deadbeef*x",
		"{x}:0123456789abcdef":                           "{x}:*",
		"go:expiry:17639:12":                             "go:expiry:*:*",
		strings.Repeat("x", 1000):                        strings.Repeat("x", templateBytesMax),
		strings.Repeat("1x", 1000):                       strings.Repeat("*x", templateBytesMax/2),
		"锁:42":                                           "锁:*",
		"f00dfeed-9999-0000-1111-zzzz":                   "*-*-*-*-zzzz",
	} {
		if got := Template(key); got != want {
			t.Errorf("%q is %q, want %q", key, got, want)
		}
	}
}

func aReport() Report {
	by := resp.Client{ID: 7, Name: "web-1", Addr: "10.0.0.1:5000", Node: "n1"}
	return Report{Node: "n1", SinceMs: 1700000000000, Observations: []Observation{
		{Kind: Polls, DB: 3, Key: "order:42", Hash: Hash("order:42"), Tokens: []uint64{1}, AtMs: 5, Count: 900, Client: by},
		{Kind: MissedDel, Hash: 1 << 63, Tokens: []uint64{}, AtMs: -5, Count: 1, Client: by},
	}}
}

func TestReportComesBack(t *testing.T) {
	want := aReport()
	got, err := Read(want.String())
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, %v, want %+v", got, err, want)
	}
	if got, err := Read(""); err != nil || !reflect.DeepEqual(got, Report{}) {
		t.Errorf("nothing is %+v, %v", got, err)
	}
}

// A report comes from another node.
func FuzzRead(f *testing.F) {
	r := aReport()
	f.Add(r.String())
	f.Add("")
	f.Add("\x02n1\xff\xff\xff\xff\xff\xff")
	f.Fuzz(func(t *testing.T, text string) {
		if r, err := Read(text); err == nil {
			again, err := Read(r.String())
			if err != nil || !reflect.DeepEqual(again, r) {
				t.Fatalf("%+v, %v, want %+v", again, err, r)
			}
		}
		_ = Template(text)
	})
}
