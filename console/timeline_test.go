package console

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockd/internal/locks"
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
	const second, ever = time.Second, time.Duration(1<<63 - 1)
	holds := func(token string, from, now int, fence int64) locks.Holder {
		return locks.Holder{Token: token, Fence: fence, Since: in(from), Held: time.Duration(now-from) * second}
	}
	held := func(of ...locks.Holder) locks.Info { return locks.Info{Lock: locks.Lock{Holders: of}} }
	for _, tt := range []struct {
		name   string
		now    int
		lock   locks.Info
		events []locks.Event
		want   string
	}{
		{"one after the other", 0, locks.Info{Lock: held(holds("b", 40, 100, 2)).Lock, Line: []locks.Waiter{{Token: "c", Waited: 20 * second}}}, []locks.Event{
			{Event: "granted", Token: "a", Fence: 1, Time: in(0), Client: locks.Client{Name: "web"}},
			{Event: "expired", Token: "a", Fence: 1, Time: in(40), Held: 40 * second},
			{Event: "granted", Token: "b", Fence: 2, Time: in(40), Waited: 10 * second, Owner: "worker"},
		}, "a (web) lost[0+400]expired\nb (worker) waited[300+100]granted held[400+600]\nc waited[800+200]\n"},
		{"waits without success, and a token that comes again", 0, held(holds("a", 90, 100, 3)), []locks.Event{
			{Event: "granted", Token: "a", Fence: 1, Time: in(0)},
			{Event: "gave-up", Token: "x", Time: in(30), Waited: 20 * second},
			{Event: "released", Token: "a", Fence: 1, Time: in(50), Held: 50 * second, Client: locks.Client{Name: "other"}},
			{Event: "granted", Token: "a", Fence: 3, Time: in(90)},
		}, "x failed[100+200]gave-up\na held[0+500]released held[900+100]\n"},
		{"a database is flushed", 100, held(), []locks.Event{
			{Event: "granted", Token: "a", Fence: 1, Time: in(0)}, {Event: "granted", Token: "b", Fence: 2, Time: in(50)}, {Event: "flushed", Time: in(100)},
		}, "a lost[0+1000]flushed\nb lost[500+500]flushed\n"},
		{"what was granted before the history begins", 10, held(), []locks.Event{{Event: "released", Token: "a", Fence: 1, Time: in(10), Held: 10 * second}},
			"a held[0+1000]released\n"},
		{"too short to see", 0, held(holds("b", 0, 1000, 2)), []locks.Event{
			{Event: "released", Token: "a", Fence: 1, Time: in(1000), Held: time.Millisecond},
			{Event: "granted", Token: "b", Fence: 2, Time: in(0)},
		}, "a held[996+4]released\nb held[0+1000]\n"},
		{"numbers that cannot be", 10, held(), []locks.Event{{Event: "released", Token: "a", Fence: 1, Time: in(10), Held: ever},
			{Event: "gone", Token: "b", Time: in(10), Waited: -5}}, "a held[0+1000]released\nb failed[996+4]gone\n"},
		{"nothing", 0, held(), nil, ""},
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
	var events []locks.Event
	for i := range 10000 {
		events = append(events, locks.Event{Event: "gave-up", Token: fmt.Sprint(i), Time: time.Unix(int64(i), 0), Waited: time.Second / 2})
	}
	got := timelineOf(&locks.Info{}, events, time.Unix(10000, 0))
	if len(got.Rows) != timelineRows || !got.Cut || got.Rows[timelineRows-1].Token != "9999" {
		t.Errorf("%d rows, cut %v", len(got.Rows), got.Cut)
	}
}
