package observer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"lockd/resp"
	"lockd/resp/lockuse"
)

var evalSpec = &resp.Spec{Name: "eval", Keys: resp.EvalKeys}

// play has a session see commands: "ms COMMAND ... -> reply", where a reply is OK, nil, a number or a text.
func play(s *Session, lines ...string) {
	for _, line := range lines {
		var at int64
		call, answer, _ := strings.Cut(line, " -> ")
		words := strings.Fields(call)
		if _, err := fmt.Sscan(words[0], &at); err != nil {
			panic(err)
		}
		c := resp.Cmd{Args: words[1:], Spec: evalSpec}
		s.Saw(OpOf(strings.ToLower(words[1])), &c, replyOf(answer), at)
	}
}

// observations lists the observations of a session, as "kind template count".
func observations(s *Session) []string {
	var seen []string
	for _, x := range s.Observations(resp.Client{ID: 1}) {
		seen = append(seen, fmt.Sprint(names[x.Kind], " ", lockuse.Template(x.Key), " ", x.Count))
	}
	slices.Sort(seen)
	return seen
}

var names = map[lockuse.Kind]string{
	lockuse.LeaseAfterwards: "afterwards", lockuse.NoLease: "no-lease", lockuse.StillTaken: "still-taken", lockuse.Polls: "polls",
	lockuse.GetThenDel: "get-del", lockuse.LeaseDropped: "dropped", lockuse.Refused: "refused", lockuse.Missed: "missed",
	lockuse.MissedDel: "missed-del", lockuse.Extended: "extended", lockuse.GetThenSet: "get-set",
}

func replyOf(text string) resp.Reply {
	var n int64
	switch _, err := fmt.Sscan(text, &n); {
	case text == "OK":
		return resp.OK()
	case text == "nil":
		return resp.Nil()
	case strings.HasPrefix(text, "ERR"):
		return resp.Err(text)
	case err == nil:
		return resp.Int(n)
	}
	return resp.Bulk(text)
}

// times repeats lines n times, every everyMs milliseconds; %d is the time.
func times(n, everyMs int, lines ...string) []string {
	var all []string
	for i := range n {
		for _, line := range lines {
			all = append(all, fmt.Sprintf("%d ", 1000+i*everyMs)+line)
		}
	}
	return all
}

func TestObservations(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lines []string
		want  []string
	}{
		{"setnx, then expire", []string{"1 SETNX l1 a -> 1", "2 EXPIRE l1 30 -> 1", "3 SET l2 a NX -> OK", "4 PEXPIRE l2 30 -> 1"}, []string{"afterwards l* 2"}},
		{"a lease long after", []string{"1 SETNX l1 a -> 1", "6000 EXPIRE l1 30 -> 1"}, nil},
		{"a lease that is renewed", []string{"1 SET l1 a NX PX 100 -> OK", "2 EXPIRE l1 30 -> 1"}, nil},
		{"no lease, again and again", times(4, 100, "SETNX l1 a -> 1", "DEL l1 -> 1"), []string{"no-lease l* 3"}},
		{"no lease, released by a script", times(4, 100, "SETNX l1 a -> 1", "EVAL source 1 l1 a -> 1"), []string{"no-lease l* 3"}},
		{"a value that is read", times(9, 100, "SETNX l1 a -> 1", "GET l1 -> a", "GET l1 -> a", "EVAL source 1 l1 -> 1"), nil},
		{"a counter", times(9, 100, "SETNX l1 0 -> 1", "INCR l1 -> 1", "DEL l1 -> 1"), nil},
		{"a value that changes", times(9, 100, "SETNX l1 0 -> 1", "SET l1 1 -> OK", "DEL l1 -> 1"), nil},
		{"other keys", []string{"1 SETNX l1 a -> 1", "2 DEL l1 -> 1", "3 SETNX l2 a -> 1", "4 DEL l2 -> 1", "5 SETNX l3 a -> 1", "6 DEL l3 -> 1", "7 SETNX l4 a -> 1"}, nil},
		{"no lease, and wanted", times(3, 200, "SETNX l1 b -> 0"), []string{"still-taken l* 3"}},
		{"a mark that is there", []string{"1 SETNX l1 1 -> 0", "2 SETNX l2 1 -> 0", "3 SETNX l1 2 -> 0"}, []string{"refused  1", "refused  1", "refused  1"}},
		{"polling", times(60, 5, "SET l1 a NX PX 100 -> nil"), []string{"polls l* 60", "refused  60"}},
		{"polling by LOCK", times(60, 5, "LOCK l1 a PX 100 -> nil"), []string{"polls l* 60", "refused  60"}},
		{"polling, not so fast", times(200, 11, "SET l1 a NX PX 100 -> nil"), []string{"refused  200"}},
		{"tokens of many", func() (all []string) {
			for i := range 200 {
				all = append(all, fmt.Sprintf("%d SET l1 t%d NX PX 100 -> nil", 1000+i, i))
			}
			return all
		}(), []string{"refused  1", "refused  1", "refused  1", "refused  1"}},
		{"get, then del", []string{"1 SET l1 a NX PX 100 -> OK", "2 GET l1 -> a", "3 DEL l1 -> 1"}, []string{"get-del l* 1"}},
		{"get, and not ours", []string{"1 SET l1 a NX PX 100 -> OK", "2 GET l1 -> b", "3 DEL l1 -> 1"}, nil},
		{"get and del of data", []string{"1 SET l1 a -> OK", "2 GET l1 -> a", "3 DEL l1 -> 1"}, nil},
		{"renewal without PX", []string{"1 SET l1 a IFEQ a -> OK", "1 SET l1 a IFEQ b -> OK", "1 SET l1 a IFEQ a PX 100 -> OK"}, []string{"dropped l* 1"}},
		{"nothing to release", []string{"1 EVAL source 1 l1 a -> 0", "2 UNLOCK l1 b -> 0", "3 RENEW l1 c PX 100 -> nil", "4 DELIFEQ l1 d -> 0", "5 DELEX l1 IFEQ e -> 0", "6 SET l1 f IFEQ f PX 100 -> nil", "7 DEL l1 -> 0"},
			[]string{"missed  1", "missed  1", "missed  1", "missed  1", "missed  1", "missed  1", "missed-del  1"}},
		{"released", []string{"1 EVAL source 1 l1 a -> 1", "2 UNLOCK l1 b -> 1", "3 RENEW l1 c PX 100 -> 17", "7 DEL l1 -> 1", "8 GET l1 -> nil"}, nil},
		{"another's lease, perhaps", []string{"1 SET l1 a NX PX 100 -> OK", "102 PEXPIRE l1 100 -> 1", "110 EXPIRE l1 1 -> 1", "1109 EXPIRE l1 1 -> 1", "1111 LOCK l2 a PX 100 -> 7", "1300 EXPIRE l2 1 -> 1"},
			[]string{"extended  1", "extended  1"}},
		{"one's own lease", []string{"1 SET l1 a NX PX 100 -> OK", "101 PEXPIRE l1 100 -> 1", "110 EXPIRE l1 1 -> 1", "1109 EXPIRE l1 1 -> 1", "1111 SET l2 a NX EX 1 -> OK", "2111 EXPIRE l2 1 -> 1",
			"2200 SET l3 a NX PX 100 -> OK", "2250 SET l3 a IFEQ a PX 500 -> OK", "2700 PEXPIRE l3 50 -> 1"}, nil},
		{"a lease that is gone, or was never known", []string{"1 SET l1 a NX PX 100 -> OK", "200 PEXPIRE l1 100 -> 0", "201 SET l2 a NX PXAT 1 -> OK", "900 PEXPIRE l2 100 -> 1",
			"901 SET l3 a NX PX 1 -> OK", "910 DEL l3 -> 1", "911 PEXPIRE l3 100 -> 1", "912 PEXPIRE l4 100 -> 1"}, nil},
		{"get, then set", times(3, 100, "GET l1 -> nil", "SET l1 a EX 60 -> OK", "DEL l1 -> 1"), []string{"get-set l* 3"}},
		{"get, then set, without a lease", times(3, 100, "GET l1 -> nil", "SET l1 a -> OK", "UNLINK l1 -> 1"), []string{"get-set l* 3"}},
		{"get, then set, and compare", times(3, 100, "GET l1 -> nil", "SET l1 a EX 60 -> OK", "EVAL source 1 l1 a -> 1"), []string{"get-set l* 3"}},
		{"get, then set, and DELIFEQ", times(3, 100, "GET l1 -> nil", "SET l1 a EX 60 -> OK", "DELIFEQ l1 a -> 1"), []string{"get-set l* 3"}},
		{"a cache", times(3, 100, "GET l1 -> nil", "SET l1 a EX 60 -> OK", "GET l1 -> a", "DEL l1 -> 1"), nil},
		{"a cache that is never invalidated", times(9, 100, "GET l1 -> nil", "SET l1 a EX 60 -> OK"), nil},
		{"a cache that is changed", times(3, 100, "GET l1 -> nil", "SET l1 a EX 60 -> OK", "SET l1 b EX 60 -> OK", "DEL l1 -> 1"), nil},
		{"a counter that begins with a look", times(3, 100, "GET l1 -> nil", "SET l1 0 EX 60 -> OK", "INCR l1 -> 1", "DEL l1 -> 1"), nil},
		{"get, and set under a condition", times(1, 100, "GET l1 -> nil", "SET l1 a NX EX 60 -> OK", "DEL l1 -> 1", "GET l2 -> nil", "SET l2 a XX EX 60 -> nil", "DEL l2 -> 1", "GET l2 -> nil", "SET l2 a EX 60 GET -> nil"), nil},
		{"another key", times(1, 100, "GET l1 -> nil", "SET l2 a EX 60 -> OK", "DEL l2 -> 1"), nil},
		{"long after", []string{"1 GET l1 -> nil", "6000 SET l1 a EX 60 -> OK", "6001 DEL l1 -> 1"}, nil},
		{"another's token", times(1, 100, "GET l1 -> nil", "SET l1 a EX 60 -> OK", "EVAL source 1 l1 b -> 1", "DELIFEQ l1 b -> 1"), nil},
		{"errors", []string{"1 SETNX l1 a -> ERR no", "2 EVAL source 1 l1 a -> ERR no", "3 UNLOCK l1 a -> ERR no"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &Session{}
			play(s, tt.lines...)
			if got := observations(s); !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// Whatever clients do, a session and a node remember so much and no more.
func TestMemoryIsBounded(t *testing.T) {
	n := NewNode(1)
	for i := range 300 {
		var s Session
		for k := range 10 {
			key := strings.Repeat("x", i/10) + strings.Repeat("y", 1+k) + strings.Repeat("z", 1+i%10)
			play(&s, fmt.Sprintf("1 SETNX %s a -> 1", key), fmt.Sprintf("2 EXPIRE %s 1 -> 1", key), fmt.Sprintf("3 UNLOCK %s b -> 0", key), fmt.Sprintf("3 SETNX %s b -> 0", key))
		}
		list := s.Observations(resp.Client{})
		if most := talliesMax + refusedMax + missedMax; len(list) > most {
			t.Fatalf("%d observations, want %d at most", len(list), most)
		}
		n.Fold(list)
	}
	if len(n.totals) != totalsMax || len(n.others) != othersMax {
		t.Errorf("the node keeps %d and %d", len(n.totals), len(n.others))
	}
	r, err := lockuse.Read(n.Report("n1", nil))
	if err != nil || len(r.Observations) > totalsMax+othersMax || r.Node != "n1" || r.SinceMs != 1 {
		t.Errorf("%v, %d observations", err, len(r.Observations))
	}
}

// What a session has seen is told while it lasts and afterwards, once.
func TestNodeSums(t *testing.T) {
	n := NewNode(1)
	var a, b Session
	play(&a, "1 SETNX l1 a -> 1", "2 EXPIRE l1 30 -> 1")
	play(&b, "3 SETNX l7 a -> 1", "4 EXPIRE l7 30 -> 1")
	of := func(s *Session, id uint64) []lockuse.Observation { return s.Observations(resp.Client{ID: id}) }
	n.Fold(of(&a, 1))
	r, err := lockuse.Read(n.Report("n1", of(&b, 2)))
	if err != nil || len(r.Observations) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if s := r.Observations[0]; s.Count != 2 || s.Key != "l7" || s.Client.ID != 2 {
		t.Errorf("%+v", s)
	}
}

// BenchmarkSaw measures the cost for a session that takes and releases a lock, and for one that reads pages.
func BenchmarkSaw(b *testing.B) {
	taking := resp.Cmd{Args: resp.Args{"SET", "lock:42", "8d7f0e6b-4f8e-4c6e", "NX", "PX", "30000"}}
	freeing := resp.Cmd{Args: resp.Args{"EVALSHA", "b8059ba43af6ffe8bed3db65bac35d452f8115d8", "1", "lock:42", "8d7f0e6b-4f8e-4c6e"}, Spec: evalSpec}
	reading := resp.Cmd{Args: resp.Args{"GET", "page:42"}}
	ok, nothing, one := resp.OK(), resp.Nil(), resp.Int(1)
	for _, bb := range []struct {
		name string
		run  func(s *Session, now int64)
	}{
		{"taken and released", func(s *Session, now int64) {
			s.Saw(set, &taking, ok, now)
			s.Saw(script, &freeing, one, now)
		}},
		{"refused", func(s *Session, now int64) { s.Saw(set, &taking, nothing, now) }},
		{"no lock", func(s *Session, now int64) { s.Saw(get, &reading, ok, now) }},
	} {
		b.Run(bb.name, func(b *testing.B) {
			var s Session
			b.ReportAllocs()
			now := int64(1_700_000_000_000)
			for b.Loop() {
				now += 20
				bb.run(&s, now)
			}
		})
	}
}
