package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockd/cluster/face"
	"lockd/cluster/membership"
	"lockd/internal/testfile"
	"lockd/resp"
)

// Every reply and event of the two client modes, over what happens to a cluster, in
// virtual time. A line of a transcript is one of:
//
//	# text            what the next lines prove
//	> n1 COMMAND ...  send a command to a node
//	> s1 COMMAND ...  send a command to its sentinel
//	> events s1       what the sentinel has published since
//	> transfer n1     wait until n1 leads
//	> await n1        wait until n1 was elected, before anybody counts as down
//	> await none      wait until the running nodes say that nobody leads
//	> kill n1, start n1, cut n1, heal, wait 5s
//	= reply           in both protocols; where they differ:
//	2 reply, 3 reply  in RESP2 and in RESP3
//
// Times, offsets, terms and what follows from the id of the cluster are written as #.
func TestModeTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/modes/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for range 50 { // who wins an election, and when, is Raft's dice: until it is as awaited
				if synctest.Test(t, func(t *testing.T) { got = playModes(t, string(text)) }); got != "" {
					break
				}
			}
			if *testfile.Rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, have := strings.Split(string(text), "\n"), strings.Split(got, "\n")
			for i := range max(len(want), len(have)) {
				if i >= len(want) || i >= len(have) || want[i] != have[i] {
					t.Fatalf("%s:%d:\ngot  %s\nwant %s", file, i+1, strings.Join(have[i:min(i+1, len(have))], ""), strings.Join(want[i:min(i+1, len(want))], ""))
				}
			}
		})
	}
}

// startModes starts three nodes in both modes. n1 leads. The address of n3 is a name.
func startModes(t *testing.T) *testCluster {
	c := startCluster(t, 3, bothModes)
	c.settle()
	c.moveTo("n1")
	time.Sleep(2 * face.SurveyEvery)
	for _, s := range []string{"s1", "s2", "s3"} {
		c.events(s)
	}
	return c
}

func bothModes(cfg *Config) {
	host := map[string]string{"n1": "10.0.0.1", "n2": "10.0.0.2", "n3": "host3", "n4": "10.0.0.4"}[cfg.ID]
	cfg.ClientAddrs = []string{host + ":7000"}
	cfg.ClusterProtocol = true
	cfg.Sentinel = &face.SentinelConfig{Addr: host + ":27000", Master: "mymaster", Publisher: &testPublisher{},
		Info: func() []resp.Section {
			return []resp.Section{face.Section("Server", "redis_mode", "sentinel"), face.Section("Commandstats", "cmdstat_ping", "calls=1")}
		}}
}

// moveTo makes a node lead, and waits until all know.
func (c *testCluster) moveTo(id string) {
	c.t.Helper()
	leader := c.leader()
	for range 100 {
		if leader.do("LOCKD TRANSFER "+id) == "+OK" {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	c.await(func(s *face.View) bool { return !s.Vacant && s.LedBy(id) })
}

// await waits until a condition holds for what every running node tells.
func (c *testCluster) await(cond func(*face.View) bool) {
	c.t.Helper()
	for range 1000 {
		all := true
		for _, n := range c.others(nil) {
			all = all && cond(n.topology.Current.Load())
		}
		if all {
			synctest.Wait()
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.t.Fatal("not all tell it")
}

// playModes plays a transcript; "" when an election was not as awaited.
func playModes(t *testing.T, text string) string {
	c := startModes(t)
	defer c.close()
	var out []string
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		command, isCommand := strings.CutPrefix(line, "> ")
		if !isCommand {
			if line == "" || line[0] == '#' {
				out = append(out, line)
			}
			continue
		}
		answer, ok := c.playMode(command)
		if !ok {
			return ""
		}
		out = append(append(out, line), answer...)
	}
	return strings.Join(out, "\n") + "\n"
}

// playMode runs one line of a transcript and returns the lines that answer it; not ok
// when an election was not as awaited.
func (c *testCluster) playMode(line string) (answer []string, ok bool) {
	words := strings.Fields(line)
	switch words[0] {
	case "transfer":
		c.moveTo(words[1])
	case "await":
		return nil, c.awaitElected(words[1])
	case "kill":
		c.kill(words[1])
		synctest.Wait() // its connections have ended
	case "start":
		c.start(words[1])
	case "cut":
		c.cut(c.nodes[words[1]])
	case "heal":
		c.net.Heal()
	case "wait":
		d, err := time.ParseDuration(words[1])
		if err != nil {
			c.t.Fatal(err)
		}
		time.Sleep(d)
		synctest.Wait()
	case "events":
		return c.events(words[1]), true
	default:
		return c.askMode(words[0], words[1:]), true
	}
	return nil, true
}

func (c *testCluster) awaitElected(id string) bool {
	c.t.Helper()
	if id == "none" {
		c.await(func(s *face.View) bool { return s.Vacant })
		return true
	}
	c.await(func(s *face.View) bool { return !s.Vacant })
	for _, n := range c.others(nil) {
		s := n.topology.Current.Load()
		if !s.LedBy(id) || slices.ContainsFunc(s.Nodes, func(p face.Node) bool { return p.Down }) {
			return false
		}
	}
	return true
}

// events are what a sentinel has published since they were last asked for.
func (c *testCluster) events(sentinel string) []string {
	p := c.nodes["n"+sentinel[1:]].cfg.Sentinel.Publisher.(*testPublisher)
	p.mu.Lock()
	defer p.mu.Unlock()
	var lines []string
	for _, m := range p.heard {
		lines = append(lines, "= "+masked(c.named(m)))
	}
	p.heard = nil
	return lines
}

// askMode sends a command to n1 or to s1, the sentinel of n1.
func (c *testCluster) askMode(whom string, words []string) []string {
	n := c.nodes["n"+whom[1:]]
	for i := range words {
		words[i] = c.unnamed(words[i])
	}
	do := n.Do
	if whom[0] == 's' {
		do = n.Sentinel().Do
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r := do(ctx, resp.Request{Cmds: []resp.Cmd{{Args: words}}}).Replies[0]
	form := func(proto int) string {
		text := strings.ReplaceAll(string(r.AppendTo(nil, proto)), "\r\n", " ")
		return masked(c.named(strings.TrimRight(strings.ReplaceAll(text, "\n", " / "), " ")))
	}
	if form(2) == form(3) {
		return []string{"= " + form(2)}
	}
	return []string{"2 " + form(2), "3 " + form(3)}
}

// named writes the run ids of nodes and sentinels as <n1> and <s1>.
func (c *testCluster) named(text string) string {
	for id, n := range c.nodes {
		m := membership.Member{ID: id, Incarnation: n.disk.incarnation}
		text = strings.NewReplacer(face.RunID("node", m), "<"+id+">", face.RunID("sentinel", m), "<s"+id[1:]+">").Replace(text)
	}
	return text
}

func (c *testCluster) unnamed(word string) string {
	for id, n := range c.nodes {
		word = strings.ReplaceAll(word, "<"+id+">", face.RunID("node", membership.Member{ID: id, Incarnation: n.disk.incarnation}))
	}
	return word
}

var masks = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`(replication-offset|create-time)( :)\d+`), "$1$2#"},
	{regexp.MustCompile(`( 0 )\d+ \d+ ((dis)?connected)`), "$1# # $2"},
	{regexp.MustCompile(`(epoch[:=])\d+`), "$1#"},
	{regexp.MustCompile(`(master_replid:)[0-9a-f]{40}`), "$1#"}, // follows from the id of the cluster
	{regexp.MustCompile(`((last-ok-ping-reply|last-ping-reply|info-refresh|role-reported-time|s-down-time|o-down-time|slave-repl-offset|config-epoch|last-hello-message) \$)\d+ \d+`), "$1# #"},
	{regexp.MustCompile(`(pending-commands \$1 1 \S+ link-refcount \$1 1 \S+ last-ping-sent \$)\d+ \d+`), "$1# #"},
	{regexp.MustCompile(`(\+vote-for-leader=\S+ )\d+`), "$1#"},
	{regexp.MustCompile(`([=$])\d{2,4} (txt:)?([<#c])`), "$1# $2$3"}, // the length of a text with such in it
	{regexp.MustCompile(`(\*3 \$6 master :)\d+`), "$1#"},
	{regexp.MustCompile(`(\$4 7000 \$)\d \d+`), "$1# #"},
	{regexp.MustCompile(`(connect(ed)? :)\d+`), "$1#"},
	{regexp.MustCompile(`((offset|histlen|seconds_ago):)\d+`), "$1#"},
}

func masked(text string) string {
	for _, m := range masks {
		text = m.what.ReplaceAllString(text, m.with)
	}
	return text
}

// Every node gives the same answer, but for which of the lines is its own.
func TestClusterAnswersAgree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startModes(t)
		defer c.close()
		for _, command := range []string{"CLUSTER SLOTS", "CLUSTER NODES", "CLUSTER INFO", "CLUSTER MYSHARDID", "CLUSTER SHARDS"} {
			var seen []string
			for _, n := range c.others(nil) {
				answer := masked(strings.ReplaceAll(n.do(command), "myself,", ""))
				if !slices.Contains(seen, answer) {
					seen = append(seen, answer)
				}
			}
			if len(seen) != 1 {
				t.Errorf("%s: %q", command, seen)
			}
		}
		ids := map[string]bool{}
		for _, n := range c.others(nil) {
			id := n.do("CLUSTER MYID")
			if !regexp.MustCompile(`^\$40 [0-9a-f]{40}$`).MatchString(id) || ids[id] {
				t.Errorf("CLUSTER MYID at %s: %s", n.id, id)
			}
			ids[id] = true
		}
	})
}

// Nobody is sent to a leader that does not serve yet, by any node, and the leader
// that is told of keeps its place until another serves.
func TestTheLeaderToldOfServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, bothModes)
		defer c.close()
		c.settle()
		for round := range 6 {
			old := c.leader()
			if round%2 == 0 {
				c.cut(old)
			} else {
				old.do("LOCKD TRANSFER")
			}
			for range 500 {
				time.Sleep(5 * time.Millisecond)
				synctest.Wait()
				for _, n := range c.others(nil) {
					st := n.topology.Current.Load()
					if st.Master == nil {
						t.Fatalf("round %d: %s tells of no leader", round, n.id)
					}
					if told := c.nodes[st.Master.Id]; !st.Vacant && told != old && !told.lead.Held() && n != old {
						t.Fatalf("round %d: %s tells of %s, which does not serve", round, n.id, told.id)
					}
				}
			}
			c.net.Heal()
			c.settle()
			time.Sleep(2 * time.Second)
		}
	})
}

// In cluster mode "certainly not done" is told in the words of Redis Cluster, and the
// node says that the cluster fails once commands do.
func TestClusterDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startModes(t)
		defer c.close()
		c.cut(c.nodes["n1"])
		for _, n := range []string{"n1", "n2"} {
			if n == "n2" {
				c.cut(c.nodes["n2"])
			}
			if got := c.nodes[n].do("SET a 1"); got != "-"+resp.ErrClusterDown && got != "-"+resp.ErrUnknown {
				t.Errorf("SET at %s: %q", n, got)
			}
			if got := c.nodes[n].do("GET a"); got != "-"+resp.ErrClusterDown {
				t.Errorf("GET at %s: %q", n, got)
			}
			time.Sleep(face.SurveyEvery)
			if got := c.nodes[n].do("CLUSTER INFO"); !strings.Contains(got, "cluster_state:fail") {
				t.Errorf("CLUSTER INFO at %s: %q", n, got)
			}
			if got := c.nodes[n].Redirect(false); got != "" {
				t.Errorf("%s sends its clients to %q", n, got)
			}
		}
		c.net.Heal()
		c.settle()
		time.Sleep(face.SurveyEvery)
		for _, n := range c.others(nil) {
			if got := n.do("CLUSTER INFO"); !strings.Contains(got, "cluster_state:ok") {
				t.Errorf("CLUSTER INFO at %s: %q", n.id, got)
			}
		}
	})
}

// The keys of a slot are those of a state that has all that was acknowledged before, on any node. They are looked for a
// bounded number at a time, and by no command.
func TestKeysInSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, bothModes)
		defer c.close()
		leader := c.settle()
		var many resp.Request
		for i := range 2500 {
			key := fmt.Sprintf("k%04d{%s}", i, string("ab"[i%2]))
			many.Cmds = append(many.Cmds, resp.Cmd{Args: resp.Args{"SET", key, "v"}})
		}
		if res := leader.Do(t.Context(), many); res.Replies[len(res.Replies)-1].IsErr() {
			t.Fatal(res.Replies)
		}
		n := c.others(leader)[0]
		slot := strconv.Itoa(resp.Slot("a"))
		for _, ask := range [][2]string{
			{"COUNTKEYSINSLOT " + slot, ":1250"},
			{"GETKEYSINSLOT " + slot + " 3", "*3 $8 k0000{a} $8 k0002{a} $8 k0004{a}"},
			{"GETKEYSINSLOT " + slot + " 0", "*0"},
			{"COUNTKEYSINSLOT 1", ":0"},
			{"GETKEYSINSLOT 1 9", "*0"},
		} {
			c.expect(n, "CLUSTER "+ask[0], ask[1])
		}
		if got := n.do("CLUSTER GETKEYSINSLOT " + slot + " 2000"); !strings.HasPrefix(got, "*1250 ") {
			t.Errorf("all keys of the slot: %.20s", got)
		}
		want := slices.Repeat([]int{1000}, 3+1+1+3+3+3)
		if !slices.Equal(n.machine.steps, want) {
			t.Errorf("the machine was asked for steps of %v keys, want %v", n.machine.steps, want)
		}
		c.cut(n)
		c.expect(n, "CLUSTER COUNTKEYSINSLOT "+slot, "-"+resp.ErrClusterDown)
	})
}

// A node redirects to the leader, never to itself.
func TestRedirect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startModes(t)
		defer c.close()
		check := func(want map[string]string) {
			t.Helper()
			for id, addr := range want {
				if got := c.nodes[id].Redirect(false); got != addr {
					t.Errorf("%s redirects to %q, want %q", id, got, addr)
				}
			}
		}
		check(map[string]string{"n1": "", "n2": "10.0.0.1:7000", "n3": "10.0.0.1:7000"})
		c.moveTo("n3")
		check(map[string]string{"n1": "host3:7000", "n2": "host3:7000", "n3": ""})
	})
}

// A new node is told of once it has a vote, a removed one no longer.
func TestModesFollowMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startModes(t)
		defer c.close()
		c.add("n4", bothModes)
		c.start("n4")
		c.events("s2")
		c.expect(c.nodes["n2"], "LOCKD ADD n4 n4:1", "+OK")
		time.Sleep(2 * face.SurveyEvery)
		if got := c.nodes["n2"].do("CLUSTER SLOTS"); !strings.Contains(got, "$8 10.0.0.4 :7000 ") {
			t.Errorf("CLUSTER SLOTS after n4 was added: %s", got)
		}
		want := []string{"= +slave=slave 10.0.0.4:7000 10.0.0.4 7000 @ mymaster 10.0.0.1 7000", "= +sentinel=sentinel <s4> 10.0.0.4 27000 @ mymaster 10.0.0.1 7000"}
		if got := c.events("s2"); !slices.Equal(got, want) {
			t.Errorf("events after n4 was added: %q", got)
		}
		c.expect(c.nodes["n2"], "LOCKD REMOVE n3", "+OK")
		time.Sleep(2 * face.SurveyEvery)
		for _, command := range []string{"CLUSTER SLOTS", "CLUSTER NODES"} {
			if got := c.nodes["n2"].do(command); strings.Contains(got, "host3") {
				t.Errorf("%s after n3 was removed: %s", command, got)
			}
		}
		// The leader goes: its last word is handed on, and the switch is announced.
		c.events("s2")
		c.expect(c.nodes["n2"], "LOCKD REMOVE n1", "+OK")
		time.Sleep(2 * face.SurveyEvery)
		leader := c.leader("n2", "n4").topology.Current.Load().Master.Host
		if got := fmt.Sprint(c.events("s2")); !strings.Contains(got, "+switch-master=mymaster 10.0.0.1 7000 "+leader+" 7000") {
			t.Errorf("events after n1 was removed: %s", got)
		}
	})
}

// A node that leads no longer and knows of no leader does not pass for one that is well.
func TestClusterNodesWithoutMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startModes(t)
		defer c.close()
		n1 := c.nodes["n1"]
		lines := func(n *testNode, want ...string) {
			t.Helper()
			got := n.do("CLUSTER NODES")
			for _, w := range want {
				if !strings.Contains(got, w) {
					t.Errorf("CLUSTER NODES at %s: no %q in %s", n.id, w, got)
				}
			}
		}
		lines(n1, " myself,master - ")
		c.cut(n1)
		next := c.leader("n2", "n3")
		time.Sleep(leaderWaitDefault + face.DownAfter + 2*face.SurveyEvery)
		lines(n1, " myself,master,fail? - ", " connected 0-16383", " slave,fail ")
		lines(next, " myself,master - ", " slave,fail ")
		if got := next.do("CLUSTER NODES"); strings.Contains(got, "fail?") {
			t.Errorf("CLUSTER NODES beside a leader: %s", got)
		}
		c.net.Heal()
		c.await(func(s *face.View) bool { return !s.Vacant && s.LedBy(next.id) })
		lines(n1, " myself,slave ")
	})
}

// The last leader keeps its place, also one that is no member any more, until there
// is another; then the switch is announced from it.
func TestTheLastLeaderStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startModes(t)
		defer c.close()
		n3 := c.nodes["n3"]
		c.cut(n3)
		c.await(func(s *face.View) bool { return s.Vacant || s.LedBy("n1") })
		time.Sleep(face.DownAfter)
		gone := *n3.topology.Current.Load()
		gone.Master = &face.Node{Id: "n0", Host: "10.0.0.9", Port: "7000", RunID: "gone"}
		n3.topology.Current.Store(&gone)
		c.events("s3")
		time.Sleep(2 * face.SurveyEvery)
		if told := n3.topology.Current.Load(); !told.Vacant || !told.LedBy("n0") {
			t.Errorf("%+v, vacant %v", told.Master, told.Vacant)
		}
		if got := c.askMode("s3", []string{"SENTINEL", "get-master-addr-by-name", "mymaster"}); got[0] != "= *2 $8 10.0.0.9 $4 7000" {
			t.Errorf("got %q", got)
		}
		c.net.Heal()
		c.await(func(s *face.View) bool { return !s.Vacant && s.LedBy("n1") })
		if got := fmt.Sprint(c.events("s3")); !strings.Contains(got, "+switch-master=mymaster 10.0.0.9 7000 10.0.0.1 7000") {
			t.Errorf("events: %s", got)
		}
	})
}

// A leader that Raft knows is told of only once it says itself that it serves.
func TestALeaderIsAskedWhetherItServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startModes(t)
		defer c.close()
		n1, n2 := c.nodes["n1"], c.nodes["n2"]
		ask := func() bool { return n2.topology.Serves(&face.View{}, "n1", "n1:1", n1.raft.CurrentTerm()) }
		if !ask() {
			t.Error("n1 leads, but does not say so")
		}
		lead := n1.lead.Swap(nil)
		if ask() {
			t.Error("n1 is not ready to lead, but says that it serves")
		}
		n1.lead.Store(lead)
	})
}
