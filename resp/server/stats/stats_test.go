package stats

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockd/resp"
)

func text(r resp.Reply) string { return string(r.AppendTo(nil, 2)) }

// SLOWLOG keeps the newest entries, at most as many as the setting says and never more than
// its limit; of a command it keeps a bounded part.
func TestSlowlogIsBounded(t *testing.T) {
	var l Slowlog
	for i := range 10 {
		l.Add(Slow{Start: time.Unix(int64(i), 0), Args: []string{"GET"}, More: i % 2, Waited: 7}, 3)
	}
	if l.Len() != 3 {
		t.Errorf("%d entries", l.Len())
	}
	want := "*6\r\n:9\r\n:9\r\n:0\r\n*2\r\n$3\r\nGET\r\n$37\r\n... (1 more commands in the same run)\r\n" +
		"$0\r\n\r\n$0\r\n\r\n"
	if got := l.Newest(1, false); len(got) != 1 || text(got[0]) != want {
		t.Errorf("%q", text(resp.Array(got...)))
	}
	want = strings.Replace(want, "*6", "*7", 1) + ":7\r\n"
	if got := l.Newest(1, true); len(got) != 1 || text(got[0]) != want {
		t.Errorf("%q", text(resp.Array(got...)))
	}
	if got := l.Newest(-1, false); len(got) != 3 {
		t.Errorf("%d entries", len(got))
	}
	l.Add(Slow{}, -1)
	if l.Len() != 0 {
		t.Errorf("%d entries are kept where none are wanted", l.Len())
	}
	args := make(resp.Args, slowlogArgsMax+1)
	args[1], args[2] = "secret", strings.Repeat("x", slowlogArgBytesMax+7)
	kept := SlowArgs(args, func(i int) bool { return i == 1 })
	if len(kept) != slowlogArgsMax || kept[1] != "(redacted)" || !strings.HasSuffix(kept[2], "x... (7 more bytes)") ||
		kept[slowlogArgsMax-1] != "... (2 more arguments)" {
		t.Errorf("%q", kept)
	}
}

// LATENCY has one sample a second, the worst, and a bounded number of them.
func TestLatencySamples(t *testing.T) {
	var l Latency
	for i := range latencySamplesMax + 5 {
		for _, ms := range []int64{5, 7, 6} {
			l.Add(true, time.Unix(int64(i), 0), ms)
		}
	}
	want := fmt.Sprintf("*1\r\n*4\r\n$12\r\nfast-command\r\n:%d\r\n:7\r\n:7\r\n", latencySamplesMax+4)
	if got := text(l.Latest()); got != want {
		t.Errorf("%q", got)
	}
	if got := l.History("Fast-Command").Elems; len(got) != latencySamplesMax || text(got[0]) != "*2\r\n:5\r\n:7\r\n" {
		t.Errorf("%d samples, %q", len(got), text(got[0]))
	}
	if n := l.Reset([]string{"command", "nosuch"}); n != 0 {
		t.Errorf("%d events were forgotten", n)
	}
	if n := l.Reset(nil); n != 1 || text(l.Latest()) != "*0\r\n" {
		t.Errorf("%d events were forgotten", n)
	}
}

// What a client makes up does not fill the table of errors.
func TestErrorKindsAreBounded(t *testing.T) {
	var totals Totals
	for i := range errorKindsMax + 10 {
		totals.CountError(resp.Err("E" + strconv.Itoa(i) + " text"))
	}
	totals.CountError(resp.Err("E0 text"))
	fields := totals.ErrorSection().Fields
	if len(fields) != errorKindsMax || !slices.Contains(fields, resp.Field{Name: "errorstat_E0", Value: "count=2"}) {
		t.Errorf("%d kinds: %v", len(fields), fields)
	}
	if totals.errorReplies.Load() != errorKindsMax+11 {
		t.Errorf("%d error replies", totals.errorReplies.Load())
	}
}

// The statistics of commands: commands that were never called are not shown, and a container stands for its
// subcommands.
func TestCommandFigures(t *testing.T) {
	var l Commands
	get, list := l.Add("get", "string"), l.Add("client|list", "connection")
	l.Add("set", "string")
	for i := range 100 {
		get.Count(int64(i), i == 0)
	}
	list.Count(3, false)
	list.Reject()
	want := []resp.Field{
		{Name: "cmdstat_get", Value: "calls=100,usec=4950,usec_per_call=49.50,rejected_calls=0,failed_calls=1"},
		{Name: "cmdstat_client|list", Value: "calls=1,usec=3,usec_per_call=3.00,rejected_calls=1,failed_calls=0"},
	}
	if got := l.Section().Fields; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if got := l.LatencySection().Fields[0].Value; got != "p50=64.000,p99=128.000,p99.9=128.000" {
		t.Errorf("%s", got)
	}
	if got := text(l.Histogram(map[string]bool{"client": true})); got != "*2\r\n$11\r\nclient|list\r\n"+
		"*4\r\n$5\r\ncalls\r\n:1\r\n$14\r\nhistogram_usec\r\n*2\r\n:4\r\n:1\r\n" {
		t.Errorf("%q", got)
	}
	l.Reset()
	if got := l.Section().Fields; len(got) != 0 {
		t.Errorf("%v", got)
	}
}

// A rate is the mean of the last samples.
func TestRates(t *testing.T) {
	var totals Totals
	for range 32 {
		totals.Commands.Add(50)
		totals.Sample(0.5)
	}
	if got := totals.Section(nil).Fields[2]; got != (resp.Field{Name: "instantaneous_ops_per_sec", Value: "100"}) {
		t.Error(got)
	}
}

// Sizes are written as Redis writes them.
func TestHuman(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0B", 1023: "1023B", 1536: "1.50K", 5 << 40: "5.00T", 5 << 50: "5120.00T",
	} {
		if got := human(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
