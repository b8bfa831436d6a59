package top

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockd/cmd/lockd/show"
	"lockd/internal/locks"
	"lockd/resp"
)

var rewrite = flag.Bool("rewrite", false, "write the pictures in testdata instead of comparing them")

var noon = time.Date(2026, 11, 22, 14, 3, 7, 212e6, time.UTC)

// lock is a lock with one holder.
func lock(key, owner string, fence int64, held, left, lease time.Duration, waiters int64) locks.Lock {
	return locks.Lock{Key: key, Mode: locks.Exclusive, Permits: 1, Waiters: waiters, Holders: []locks.Holder{{
		Token: "7f3c9a12...", Owner: owner, By: "LOCK", Fence: fence, HasLease: true, LeaseLeft: left, Lease: lease, Held: held,
		Since: noon.Add(-held), Client: locks.Client{ID: fence, Name: owner, Addr: "10.0.0.9:4711", Node: "n1"},
	}}}
}

// sample returns the locks of an example cluster.
func sample() []locks.Lock {
	many := lock("table", "reader-1", 811, 3*time.Minute, 20*time.Second, 30*time.Second, 0)
	many.Mode, many.Permits = locks.Shared, 0
	other := many.Holders[0]
	other.Owner, other.Fence = "reader-2", 812
	many.Holders = append(many.Holders, other)
	forever := lock("cron:nightly", "cron", 90, 50*time.Hour, 0, 0, 0)
	forever.Holders[0].HasLease = false
	evil := lock("evil\x1b[2J\u202e", "o\nwner", 820, 2*time.Second, time.Second, 30*time.Second, 1)
	return []locks.Lock{
		forever, many,
		lock("order:42", "web-7", 813, 65*time.Second, 12*time.Second, 30*time.Second, 3),
		lock("订单:9917", "结算-2", 817, 4200*time.Millisecond, 29*time.Second, 30*time.Second, 0),
		lock("a:rather:long:name:of:a:lock:of:some:customer:12345678", "api-3:some-very-long-owner", 818, 3*time.Second, 27*time.Second, 30*time.Second, 0),
		evil,
	}
}

// looked is a model that has looked twice.
func looked(list []locks.Lock) *Model {
	m := New(time.Second, 500)
	m.Update(Snapshot{Ask: m.Ask(), At: noon.Add(-1400 * time.Millisecond), Took: time.Millisecond, Addr: "127.0.0.1:7001", Locks: list[:len(list)-1]})
	m.Update(Snapshot{Ask: m.Ask(), At: noon.Add(-400 * time.Millisecond), Took: time.Millisecond, Addr: "127.0.0.1:7001", Locks: list,
		Flags: []Flag{{"order:*", "3 times order:* was deleted by a client that did not take it, such as web-7: use UNLOCK"}, {"cron:*", "cron:* has no lease"}}})
	return m
}

func typed(m *Model, text string) {
	for _, r := range text {
		m.Press(Key{Rune: r})
	}
}

// openOrder opens the page of order:42.
func openOrder(m *Model) {
	if do := m.Press(Key{Special: Enter}); !do.Refresh {
		panic("it is not looked at")
	}
	next := lock("order:42", "web-7", 813, 65*time.Second, 12*time.Second, 30*time.Second, 1)
	next.Holders[0].Note = "bills"
	l := m.last
	l.Ask, l.Detail = m.Ask(), Detail{
		Info: &locks.Info{Lock: next, KnownSince: noon.Add(-time.Hour), Line: []locks.Waiter{
			{Token: "0b77e1d4...", Owner: "web-8", Client: locks.Client{ID: 12, Name: "web-8", Node: "n2"}, Mode: locks.Exclusive, Waited: 1200 * time.Millisecond, Left: 3800 * time.Millisecond, Note: "refund"}}},
		History: locks.History{KnownSince: noon.Add(-time.Hour), Events: []locks.Event{
			{Time: noon.Add(-100 * time.Second), Event: "granted", Token: "5a5a5a5a...", Owner: "web-6", Fence: 800, By: "SET", Client: locks.Client{Name: "web-6", Node: "n3"}, Lease: 30 * time.Second},
			{Time: noon.Add(-65 * time.Second), Event: "expired", Token: "5a5a5a5a...", Owner: "web-6", Fence: 800, Held: 35 * time.Second, Lease: 30 * time.Second},
			{Time: noon.Add(-65 * time.Second), Event: "granted", Token: "7f3c9a12...", Owner: "web-7", Fence: 813, By: "LOCK", Client: locks.Client{Name: "web-7", Node: "n1"}, Waited: 1200 * time.Millisecond, Lease: 30 * time.Second, Note: "bills"},
		}},
	}
	m.Update(l)
}

// The pictures, at the sizes of terminals.
func TestView(t *testing.T) {
	for _, tt := range []struct {
		name          string
		width, height int
		press         func(m *Model)
	}{
		{"list", 80, 24, func(*Model) {}},
		{"list", 40, 8, func(*Model) {}},
		{"list", 160, 12, func(*Model) {}},
		{"held", 80, 24, func(m *Model) { typed(m, "hjj") }},
		{"lock", 80, 24, openOrder},
		{"lock", 50, 30, openOrder},
		{"help", 80, 28, func(m *Model) { typed(m, "?") }},
		{"sure", 80, 24, func(m *Model) { typed(m, "xweb-7 hangs"); m.Press(Key{Special: Enter}) }},
		{"silent", 80, 24, func(m *Model) { m.Missed(errors.New("dial tcp 127.0.0.1:7003: connection refused")) }},
	} {
		m := looked(sample())
		tt.press(m)
		lines := m.View(tt.width, tt.height, noon)
		if len(lines) != tt.height {
			t.Errorf("%s: %d lines", tt.name, len(lines))
		}
		text := ""
		for _, l := range lines {
			if w := show.Width(l.String()); w > tt.width {
				t.Errorf("%s in %d: a line of %d: %s", tt.name, tt.width, w, l)
			}
			text += l.String() + "\n"
		}
		golden(t, fmt.Sprintf("%s_%dx%d.txt", tt.name, tt.width, tt.height), text)
	}
	text := ""
	for _, l := range pictured().View(80, 24, noon) {
		text += l.String() + "\n"
	}
	golden(t, "readme_80x24.txt", text)
	golden(t, "once_80.txt", strings.Join(looked(sample()).Picture(80, noon), "\n")+"\n")
}

// pictured is the cluster of the picture in docs/locks.md.
func pictured() *Model {
	const s, m, h = time.Second, time.Minute, time.Hour
	forever := lock("cron:nightly-report", "cron-1", 90, 50*h, 0, 0, 0)
	forever.Holders[0].HasLease = false
	pool := lock("printers", "print-2", 1033, 41*s, 26*s, 30*s, 1)
	pool.Holders = append(pool.Holders, pool.Holders[0], pool.Holders[0])
	list := []locks.Lock{
		lock("order:42", "web-7", 1014, 65*s, 8*s, 30*s, 4), pool, lock("order:1177", "web-3", 1052, 2600*time.Millisecond, 27*s, 30*s, 2),
		forever, lock("migrate", "lockd-run:db-1:4711", 988, 4*m+12*s, 22*s, 30*s, 0), lock("invoice:2026-11:4f0c8a11-77d2-4d0e-9c1b-2f6f1c0a9e55", "billing-1", 1040, 12*s, 18*s, 30*s, 0),
		lock("订单:9917", "结算-2", 1049, 4200*time.Millisecond, 26*s, 30*s, 0), lock("session:8841", "web-1", 1055, 900*time.Millisecond, 9*s, 10*s, 0),
	}
	model := New(s, 500)
	model.Update(Snapshot{Ask: model.Ask(), At: noon.Add(-1400 * time.Millisecond), Took: time.Millisecond, Addr: "10.0.0.1:6379", Locks: list[:7]})
	model.Update(Snapshot{Ask: model.Ask(), At: noon.Add(-400 * time.Millisecond), Took: time.Millisecond, Addr: "10.0.0.1:6379", Locks: list,
		Flags: []Flag{{"order:*", "order:* is polled faster than every 10 ms"}}})
	return model
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil || got != string(want) {
		t.Errorf("%s: %v\n%s\nwant:\n%s", name, err, got, want)
	}
}

// A picture of any state fits every size, including none.
func TestViewOfAnySize(t *testing.T) {
	states := []func(*Model){
		func(*Model) {}, openOrder, func(m *Model) { typed(m, "?") }, func(m *Model) { typed(m, "/order") },
		func(m *Model) { typed(m, "x") }, func(m *Model) { typed(m, "c") }, func(m *Model) { *m = *New(time.Second, 5) },
		func(m *Model) { *m = *looked([]locks.Lock{{}}) },
	}
	for n, state := range states {
		m := looked(sample())
		state(m)
		for _, width := range []int{0, 1, 5, 39, 59, 80, 119, 300} {
			for height := range 12 {
				m.Press(Key{Special: End})
				lines := m.View(width, height, noon)
				if len(lines) != height {
					t.Errorf("state %d: %d lines at %dx%d", n, len(lines), width, height)
				}
				for _, l := range lines {
					if w := show.Width(l.String()); w > width {
						t.Errorf("state %d: a line of %d at %dx%d: %s", n, w, width, height, l)
					}
				}
			}
		}
	}
}

func keysOf(m *Model) (keys []string) {
	for _, r := range m.rows {
		keys = append(keys, r.lock.Key)
	}
	return keys
}

func TestOrders(t *testing.T) {
	list := []locks.Lock{
		lock("a", "o", 1, 3*time.Second, 0, 0, 0), lock("b", "o", 2, 2*time.Second, 0, 0, 5), lock("c", "o", 3, time.Second, 0, 0, 5),
	}
	m := looked(list)
	for _, tt := range []struct {
		key  rune
		want []string
	}{{'w', []string{"b", "c", "a"}}, {'h', []string{"a", "b", "c"}}, {'c', []string{"c", "a", "b"}}} {
		if do := m.Press(Key{Rune: tt.key}); !do.Refresh || !slices.Equal(keysOf(m), tt.want) {
			t.Errorf("%c: %v, %v, want %v", tt.key, do, keysOf(m), tt.want)
		}
	}
}

// Changes of hands are counted between snapshots, also for a lock that is free in one of them. If only some of the
// locks are asked for, locks that appear or disappear are not counted.
func TestChurn(t *testing.T) {
	m := New(time.Second, 3)
	at := noon
	look := func(list ...locks.Lock) {
		at = at.Add(time.Second)
		m.Update(Snapshot{Ask: m.Ask(), At: at, Addr: "a:1", Locks: list})
	}
	busy := func(fence int64) locks.Lock { return lock("busy", "o", fence, 0, 0, 0, 0) }
	calm := lock("calm", "o", 1, time.Hour, 0, 0, 0)
	typed(m, "c")
	look(calm, busy(1))
	for fence := int64(2); fence < 100; fence++ {
		look(calm, busy(fence))
	}
	if r := m.rows[0]; r.lock.Key != "busy" || r.churn < 1.9 || r.churn > 2.1 || m.rows[1].churn != 0 {
		t.Errorf("%+v", m.rows)
	}
	look(calm) // it is free
	if r := m.rows[0]; len(m.rows) != 2 || r.lock.Key != "busy" || !r.gone || r.churn < 1.7 {
		t.Errorf("%+v", m.rows)
	}
	for range 100 {
		look(calm)
	}
	if len(m.rows) != 1 || len(m.churn) != 1 {
		t.Errorf("it is still known: %+v", m.rows)
	}
	look(calm, lock("x", "o", 5, 0, 0, 0, 0), lock("y", "o", 6, 0, 0, 0, 0)) // as many as are looked at
	if m.churn["x"].rate != 0 || m.churn["y"].rate != 0 {
		t.Error("what was not looked at before has changed hands")
	}
	look(calm, lock("y", "o", 6, 0, 0, 0, 0), lock("z", "o", 7, 0, 0, 0, 0))
	if m.churn["x"] != nil {
		t.Errorf("what is not looked at any more has changed hands: %+v", m.churn["x"])
	}
	typed(m, "/b")
	m.Press(Key{Special: Enter})
	look(busy(101))
	if len(m.churn) != 1 || m.churn["busy"].rate != 0 {
		t.Errorf("what another filter shows has changed hands: %+v", m.churn["busy"])
	}
}

// The cursor stays at its lock, but at the top it stays at the top.
func TestCursor(t *testing.T) {
	a, b, c := lock("a", "o", 1, 3, 0, 0, 3), lock("b", "o", 2, 2, 0, 0, 2), lock("c", "o", 3, 1, 0, 0, 1)
	m := looked([]locks.Lock{a, b, c})
	again := func(list ...locks.Lock) {
		m.Update(Snapshot{Ask: m.Ask(), At: noon, Addr: "127.0.0.1:7001", Locks: list})
	}
	typed(m, "j")
	if m.marked != "b" {
		t.Errorf("at %s", m.marked)
	}
	b.Waiters = 9
	again(a, b, c)
	if m.marked != "b" || m.cursor != 0 {
		t.Errorf("at %s, %d", m.marked, m.cursor)
	}
	a.Waiters = 10
	again(a, b, c)
	if m.marked != "a" || m.cursor != 0 {
		t.Errorf("at %s, %d", m.marked, m.cursor)
	}
	m.Press(Key{Special: End})
	again(a)
	if m.marked != "a" {
		t.Errorf("at %s", m.marked)
	}
	again()
	if m.marked != "" || m.Press(Key{Special: Enter}) != (Do{}) || m.Press(Key{Special: Down}) != (Do{}) || m.page != pageList {
		t.Errorf("at %q", m.marked)
	}
}

func TestFilter(t *testing.T) {
	m := looked(sample())
	filter := func(text string) Do {
		typed(m, "/")
		for range 20 {
			m.Press(Key{Special: Backspace})
		}
		typed(m, text)
		return m.Press(Key{Special: Enter})
	}
	for typing, want := range map[string]string{"order": "*order*", "order:*": "order:*", "a[1]": `*a\[1]*`, "": "", `a\b`: `*a\\b*`} {
		if do := filter(typing); !do.Refresh || m.Ask().Match != want {
			t.Errorf("%q: %+v, want %s", typing, m.Ask(), want)
		}
	}
	filter("orde\x1br")
	typed(m, "/zzz")
	m.Press(Key{Special: Escape})
	if m.filter != "order" {
		t.Errorf("the filter is %q", m.filter)
	}
	if do := m.Press(Key{Special: Escape}); !do.Refresh || m.filter != "" {
		t.Errorf("the filter is %q", m.filter)
	}
}

// If there are more locks than a request covers, only locks with waiters are requested when the order puts these
// first.
func TestAskForSome(t *testing.T) {
	m := New(time.Second, 2)
	list := sample()
	look := func(n int) {
		m.Update(Snapshot{Ask: m.Ask(), At: noon, Addr: "a:1", Locks: list[:n]})
	}
	if m.Ask().Waited {
		t.Error("at first")
	}
	look(1)
	if m.Ask().Waited {
		t.Error("all were seen")
	}
	look(2)
	if !m.Ask().Waited {
		t.Error("not all were seen")
	}
	look(1)
	if !m.Ask().Waited {
		t.Error("those that are waited for are seen now")
	}
	typed(m, "h")
	if m.Ask().Waited {
		t.Error("by age")
	}
	look(2)
	typed(m, "w")
	if !m.Ask().Waited {
		t.Error("by waiters again")
	}
	typed(m, "/x")
	m.Press(Key{Special: Enter})
	if m.Ask().Waited {
		t.Error("with another filter")
	}
}

// A lock is forced for the holder that was shown, after a reason and a confirmation, and never otherwise.
func TestForce(t *testing.T) {
	enter, esc := Key{Special: Enter}, Key{Special: Escape}
	y := Key{Rune: 'y'}
	type keys []any
	for _, tt := range []struct {
		name string
		keys keys
		want string
		says string
	}{
		{"yes", keys{"xhangs", enter, y}, "{order:42 813 7f3c9a12... hangs}", ""},
		{"no", keys{"xhangs", enter, "n"}, "", "nothing was done"},
		{"neither", keys{"xhangs", enter, enter}, "", "nothing was done"},
		{"escape", keys{"xhangs", enter, esc}, "", "nothing was done"},
		{"no yes after a no", keys{"xhangs", enter, "ny"}, "", ""},
		{"no reason", keys{"x", enter, y}, "", ""},
		{"escape from the reason", keys{"xhangs", esc, y}, "", ""},
		{"a reason with a y", keys{"xyyy"}, "", ""},
		{"pasted", keys{Key{Rune: 'x', Pasted: true}, "hangs", enter, y}, "", ""},
		{"a pasted yes", keys{"xhangs", enter, Key{Rune: 'y', Pasted: true}}, "", ""},
		{"a pasted enter", keys{"xhangs", Key{Special: Enter, Pasted: true}, y}, "", ""},
		{"a pasted reason", keys{"x", Key{Rune: 'h', Pasted: true}, enter, y}, "{order:42 813 7f3c9a12... h}", ""},
		{"of several", keys{Key{Special: End}, Key{Special: Up}, "xhangs", enter, y}, "", ""},
		{"on its page", keys{openOrder, "xhangs", enter, y}, "{order:42 813 7f3c9a12... hangs}", ""},
		{"on help", keys{"?xhangs", enter, y}, "", ""},
		{"another holder", keys{"xhangs", enter, func(m *Model) {
			m.Update(Snapshot{Ask: m.Ask(), At: noon, Addr: "127.0.0.1:7001", Locks: []locks.Lock{lock("order:42", "web-8", 900, 0, 0, 0, 0)}})
		}, y}, "", "order:42 has another holder now: nothing was done"},
		{"twice", keys{"xhangs", enter, y, "x"}, "{order:42 813 7f3c9a12... hangs}", "the answer to the last force has not come yet"},
	} {
		m := looked(sample())
		got := ""
		press := func(k Key) {
			if f := m.Press(k).Force; f != nil {
				got += fmt.Sprint(*f)
			}
		}
		for _, k := range tt.keys {
			switch k := k.(type) {
			case Key:
				press(k)
			case string:
				for _, r := range k {
					press(Key{Rune: r})
				}
			case func(*Model):
				k(m)
			}
		}
		if tt.name == "of several" {
			l := &m.rows[len(m.rows)-2].lock
			tt.want = fmt.Sprint(Force{Key: l.Key, Fence: l.Holders[0].Fence, Token: "7f3c9a12...", Reason: "hangs"})
		}
		if got != tt.want || tt.says != "" && m.said != tt.says {
			t.Errorf("%s: %s, want %s; it says %s", tt.name, got, tt.want, m.said)
		}
	}
	m := looked(sample())
	at := slices.IndexFunc(m.rows, func(r row) bool { return r.lock.Key == "table" })
	m.mark(at)
	typed(m, "xhangs")
	m.Press(enter)
	if f := m.Press(y).Force; f == nil || *f != (Force{Key: "table", Fence: 812, Reason: "hangs"}) {
		t.Errorf("of two holders: %v", f)
	}
	for n, want := range []string{"table was held no more", "table has been taken from its holder", "table has been taken from its 2 holders"} {
		if m.Forced(Force{Key: "table"}, int64(n), nil); !strings.Contains(m.said, want) {
			t.Errorf("%d: %s", n, m.said)
		}
	}
	if m.Forced(Force{Key: "table"}, 0, errors.New("it is\x1b not known")); m.said != `table: it is\x1b not known` {
		t.Error(m.said)
	}
}

// The screen reports a change to another node.
func TestMoves(t *testing.T) {
	m := looked(sample())
	m.Missed(errors.New("connection refused"))
	if !strings.Contains((&drawing{m: m, now: noon.Add(5 * time.Second)}).title().String(), "NO SERVER ANSWERS for 5.4s: connection refused") {
		t.Error((&drawing{m: m, now: noon}).title())
	}
	m.Missed(resp.Error("NOPERM no"))
	if !strings.Contains((&drawing{m: m, now: noon}).title().String(), "REFUSED for 400ms: NOPERM no") {
		t.Error((&drawing{m: m, now: noon}).title())
	}
	m.Update(Snapshot{Ask: m.Ask(), At: noon, Addr: "127.0.0.1:7002"})
	if m.said != "127.0.0.1:7001 does not answer any more: 127.0.0.1:7002 does" || !strings.Contains((&drawing{m: m, now: noon}).title().String(), "127.0.0.1:7002  0 held") {
		t.Error(m.said, (&drawing{m: m, now: noon}).title())
	}
}

func TestPause(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0: time.Second, 10 * time.Millisecond: 990 * time.Millisecond, 200 * time.Millisecond: 1800 * time.Millisecond, time.Minute: 30 * time.Second,
	} {
		m := New(time.Second, 5)
		m.Update(Snapshot{Ask: m.Ask(), At: noon, Addr: "a:1", Took: took})
		if got := m.Pause(); got != want {
			t.Errorf("after %s: %s, want %s", took, got, want)
		}
		if text := (&drawing{m: m}).subtitle().String(); strings.Contains(text, "looked at every") != (want > time.Second) {
			t.Errorf("after %s: %s", took, text)
		}
		if old := (&drawing{m: m, now: noon.Add(want + 3*time.Second)}).title().String(); !strings.Contains(old, " AGO") || strings.Contains((&drawing{m: m, now: noon.Add(want)}).title().String(), " AGO") {
			t.Errorf("after %s: %s", took, old)
		}
		if m.Missed(errors.New("x")); m.Pause() != time.Second {
			t.Errorf("while nobody answers: %s", m.Pause())
		}
	}
}

// A finding is shown at the locks that it is about.
func TestFlags(t *testing.T) {
	m := looked(sample())
	m.last.Flags = []Flag{flagOf(locks.Finding{Keys: "order:*", Says: "polled"}), flagOf(locks.Finding{Keys: `a[?]\*`, Says: "no lease"})}
	for key, want := range map[string][]string{"order:42": {"polled"}, `a[?]\7`: {"no lease"}, "a?7": nil, `a[x]\7`: nil, "rorder:1": nil} {
		if got := m.last.flagsOf(key); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
}

// The page of a lock that has gone says so.
func TestLockPageWithoutLock(t *testing.T) {
	m := looked(sample())
	m.Press(Key{Special: Enter})
	m.Update(Snapshot{Ask: m.Ask(), At: noon, Addr: "a:1"})
	lines := (&drawing{m: m, width: 80, now: noon}).lockLines()
	if len(lines) != 1 || lines[0].String() != m.lock+" is no lock now." {
		t.Errorf("the page of %s is %q", m.lock, lines)
	}
}
