package console

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// tell writes a timeline in a line per token: its bars, in thousandths.
func (t *timeline) tell() string {
	var b strings.Builder
	for _, row := range t.Rows {
		fmt.Fprintf(&b, "%s", row.Token)
		if row.Who != "" {
			fmt.Fprintf(&b, " (%s)", row.Who)
		}
		for _, bar := range row.Bars {
			fmt.Fprintf(&b, " %s[%d+%d]%s", bar.Kind, bar.X, bar.Width, bar.Event)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestTimeline(t *testing.T) {
	start := time.Date(2026, 11, 22, 14, 0, 0, 0, time.UTC)
	in := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	holds := func(token string, from, now int, fence int64) holder {
		return holder{Token: token, Fence: fence, since: in(from), HeldMs: int64(now-from) * 1000}
	}
	for _, tt := range []struct {
		name   string
		now    int
		lock   lock
		events []event
		want   string
	}{
		{"one after the other", 0, lock{Holders: []holder{holds("b", 40, 100, 2)}, Line: []waiter{{Token: "c", WaitedMs: 20000}}}, []event{
			{Kind: "granted", Token: "a", Fence: 1, at: in(0), Client: client{Name: "web"}},
			{Kind: "expired", Token: "a", Fence: 1, at: in(40), HeldMs: 40000},
			{Kind: "granted", Token: "b", Fence: 2, at: in(40), WaitedMs: 10000, Owner: "worker"},
		}, "a (web) lost[0+400]expired\nb (worker) waited[300+100]granted held[400+600]\nc waited[800+200]\n"},
		{"waits in vain, and a token that comes again", 0, lock{Holders: []holder{holds("a", 90, 100, 3)}}, []event{
			{Kind: "granted", Token: "a", Fence: 1, at: in(0)},
			{Kind: "gave-up", Token: "x", at: in(30), WaitedMs: 20000},
			{Kind: "released", Token: "a", Fence: 1, at: in(50), HeldMs: 50000, Client: client{Name: "other"}},
			{Kind: "granted", Token: "a", Fence: 3, at: in(90)},
		}, "x vain[100+200]gave-up\na held[0+500]released held[900+100]\n"},
		{"a database is flushed", 100, lock{}, []event{
			{Kind: "granted", Token: "a", Fence: 1, at: in(0)}, {Kind: "granted", Token: "b", Fence: 2, at: in(50)}, {Kind: "flushed", at: in(100)},
		}, "a lost[0+1000]flushed\nb lost[500+500]flushed\n"},
		{"what was granted before the history begins", 10, lock{}, []event{{Kind: "released", Token: "a", Fence: 1, at: in(10), HeldMs: 10000}},
			"a held[0+1000]released\n"},
		{"too short to see", 0, lock{Holders: []holder{holds("b", 0, 1000, 2)}}, []event{
			{Kind: "released", Token: "a", Fence: 1, at: in(1000), HeldMs: 1},
			{Kind: "granted", Token: "b", Fence: 2, at: in(0)},
		}, "a held[996+4]released\nb held[0+1000]\n"},
		{"numbers that cannot be", 10, lock{}, []event{{Kind: "released", Token: "a", Fence: 1, at: in(10), HeldMs: 1 << 62},
			{Kind: "gone", Token: "b", at: in(10), WaitedMs: -5}}, "a held[0+1000]released\nb vain[996+4]gone\n"},
		{"nothing", 0, lock{}, nil, ""},
	} {
		got := timelineOf(&tt.lock, tt.events, in(tt.now))
		text := got.tell()
		if text != tt.want {
			t.Errorf("%s:\n%swant\n%s", tt.name, text, tt.want)
		}
	}
}

// A lock that many have had is drawn as far as it is shown.
func TestTimelineIsBounded(t *testing.T) {
	var events []event
	for i := range 10000 {
		events = append(events, event{Kind: "gave-up", Token: fmt.Sprint(i), at: time.Unix(int64(i), 0), WaitedMs: 500})
	}
	got := timelineOf(&lock{}, events, time.Unix(10000, 0))
	if len(got.Rows) != timelineRows || !got.Cut || got.Rows[timelineRows-1].Token != "9999" {
		t.Errorf("%d rows, cut %v", len(got.Rows), got.Cut)
	}
}
