package nemesis

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"lockd/jepsen-lite/target"
)

// scenarios are sequences of steps, between which nothing is healed. Each has led to loss of data or an outage, or
// could have.
var scenarios = map[string]func(p *play){
	"save twice":  saveTwice,
	"hand over":   handOverToHung,
	"stop leader": stopLeaderWithMemberAway,
	"join":        loseLeaderOfJoin,
	"install":     cutAfterInstall,
	"folder":      putFolderBack,
	"large":       installLarge,
	"elected":     loseElected,
	"stopping":    disturbStopping,
	"mute":        leaveWithoutAnswers,
	"stale":       holdRequests,
}

// scenario plays one of them.
func scenario(f *field, fault Fault) (string, func()) {
	return perform(f, fault, scenarios[fault.Variant])
}

// deposed has leaders answer when others have taken their place.
func deposed(f *field, fault Fault) (string, func()) { return perform(f, fault, answerDeposed) }

// perform plays a sequence of steps.
func perform(f *field, fault Fault, steps func(p *play)) (string, func()) {
	p, what := &play{field: f, d: dice(fault.Dice), touched: map[string]bool{}}, fault.Kind+" "+fault.Variant+": "
	p.cast()
	if p.leader == "" || len(p.others) < 2 {
		return what + "nobody leads", nil
	}
	steps(p)
	what += strings.Join(p.told, ", ")
	if f.limit != nil { // it may have harmed a majority
		p.end()
		return what, nil
	}
	return what, p.end
}

// play is one scenario while it runs.
type play struct {
	*field
	d      *rand.Rand
	leader string
	others []string // the other nodes, in random order
	// descriptions of the steps so far
	told    []string
	touched map[string]bool // nodes that may be down or paused
	undo    []func()
}

// castMax bounds the wait for a leader.
const castMax = 3 * time.Second

// cast finds the leader and shuffles the others.
func (p *play) cast() {
	for until := time.Now().Add(castMax); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		if p.leader = p.Target.Leader(); p.leader != "" {
			break
		}
	}
	p.others = p.field.others(p.leader)
	p.d.Shuffle(len(p.others), func(i, j int) { p.others[i], p.others[j] = p.others[j], p.others[i] })
}

// end makes whole what the scenario has broken. The first of the others is started last: it may have to be replaced,
// and the rest must agree to that.
func (p *play) end() {
	p.links.Clear()
	for n := range p.touched {
		p.Target.Resume(n)
	}
	for _, u := range p.undo {
		u()
	}
	nodes := append([]string{p.leader}, p.others...)
	slices.Reverse(nodes[1:])
	restartAll(p.field, slices.DeleteFunc(nodes, func(n string) bool { return !p.touched[n] }))
}

// say adds a step to the description.
func (p *play) say(format string, args ...any) { p.told = append(p.told, fmt.Sprintf(format, args...)) }

// between waits for a random time.
func (p *play) between(from, to time.Duration) {
	p.wait(from + time.Duration(p.d.Int64N(int64(to-from))))
}

// kill kills a node.
func (p *play) kill(node string) {
	p.touched[node] = true
	p.say("kill %s", node)
	p.Target.Kill(node)
}

// write sends a write to a node and ignores the outcome. It does nothing when the time of the run has ended.
func (p *play) write(via string) {
	if !p.isOver() {
		_, _ = p.Target.Do(via, 3*time.Second, "SET", provokeKey, time.Now().String())
	}
}

// save makes nodes take a snapshot, one after the other.
func (p *play) save(nodes []string) {
	p.say("save %v", nodes)
	for _, n := range nodes {
		if p.isOver() {
			return
		}
		_, _ = p.Target.Do(n, 5*time.Second, "LOCKD", "SNAPSHOT")
	}
}

// catch catches messages of some kinds from and to a node until let is called, which reports whether any was caught.
// The links are marked as harmed.
func (p *play) catch(node string, c target.Catch, kinds ...string) (let func() (struck bool)) {
	p.links.markHarmed(node, p.field.others(node))
	var caught []*target.Caught
	for _, kind := range kinds {
		c.Node, c.Kind = node, kind
		caught = append(caught, p.Target.Net().Catch(c))
	}
	return func() (struck bool) {
		for _, k := range caught {
			struck = k.Cancel() || struck
		}
		p.links.Clear()
		return struck
	}
}

// loseAnswer loses a node's answer to one write, so that the leader sends the entry again.
func (p *play) loseAnswer(node string) {
	let := p.catch(node, target.Catch{Answer: true, Act: target.Swallow, Break: true}, target.MsgAppend)
	p.write(p.leader)
	p.between(10*time.Millisecond, 100*time.Millisecond)
	if let() {
		p.say("lose an answer of %s", node)
	} else {
		p.say("no answer of %s to lose", node)
	}
}

// Times of an idle cluster.
const (
	stillMax = 5 * time.Second // for the last lease to end
	stillFor = 400 * time.Millisecond
)

// still waits until all nodes have applied the same entries, and no more come for a while.
func (p *play) still() {
	var last int64
	since := time.Now()
	p.until(stillMax, func() bool {
		for _, n := range p.Target.Nodes() {
			if at, err := p.applied(n); err != nil || at != last {
				last, since = at, time.Now()
			}
		}
		return time.Since(since) > stillFor
	})
}

// saveTwice makes the nodes of an idle cluster trim their logs up to the end. Then an answer is lost, and the leader
// sends again what it has, which may be its snapshot alone.
func saveTwice(p *play) {
	speak := p.quietClients()
	defer speak()
	p.still()
	who := p.Target.Nodes()
	if p.d.IntN(3) == 0 {
		who = p.others[:1]
	}
	p.save(who)
	if p.d.IntN(4) == 0 {
		p.write(p.leader)
		p.still()
	}
	p.save(who)
	p.loseAnswer(p.others[0])
	p.between(0, 200*time.Millisecond)
	for range p.d.IntN(6) {
		p.write(p.leader)
	}
	if p.d.IntN(3) > 0 {
		p.kill(p.leader)
	}
}

// handOverToHung hands over twice to a follower whose disk hangs.
func handOverToHung(p *play) {
	to := p.others[0]
	a, err := p.Target.Arm(to, target.Strike{Point: target.LogSync, Act: target.ActStall, Stall: 30 * time.Second})
	if err != nil {
		p.say("not armed: %v", err)
		return
	}
	p.touched[to] = true
	p.undo = append(p.undo, func() { p.Target.Disarm(a) })
	p.say("%s hangs", to)
	go p.write(p.leader)
	for range 2 {
		p.between(50*time.Millisecond, 300*time.Millisecond)
		p.say("transfer to %s", to)
		_, _ = p.Target.Do(p.leader, 2*time.Second, "LOCKD", "TRANSFER", p.Target.ID(to))
	}
	if via := p.others[1]; !p.until(handOverMax, func() bool {
		r, err := p.Target.Do(via, time.Second, "SET", provokeKey, "1")
		return err == nil && !r.IsErr()
	}) && !p.isOver() {
		p.found.add(
			"left alone",
			fmt.Sprintf("%s takes no write for %s after two hand-overs to %s, whose disk hangs; the others are well",
				via, handOverMax, to),
		)
	}
}

// handOverMax bounds how long a cluster may take no write while one disk hangs.
const handOverMax = 3 * time.Second

// away takes a node away: its links are cut, or it is paused or killed.
func (p *play) away(node string) {
	switch p.d.IntN(3) {
	case 0:
		p.say("cut %s", node)
		p.links.split([]string{node}, p.field.others(node))
	case 1:
		p.say("pause %s", node)
		p.touched[node] = true
		p.Target.Pause(node)
	default:
		p.kill(node)
	}
}

// stopLeaderWithMemberAway ends a leader with SIGTERM while another member cannot be reached.
func stopLeaderWithMemberAway(p *play) {
	p.away(p.others[0])
	p.between(50*time.Millisecond, 800*time.Millisecond)
	p.say("stop %s", p.leader)
	p.touched[p.leader] = true
	stopNode(p.field, p.leader)
}

// Size of the state that a follower lacks in the scenario large, and the rate at which it gets it.
const (
	largeValues   = 40 // of largeBytes each
	largeKeys     = 10_000
	largeScript   = "for i = 1, 1000 do redis.call('set', KEYS[1] .. i, i, 'ex', ARGV[1]) end"
	largePerS     = 2 << 20 // bytes per second
	largeInstalls = 20 * time.Second
)

// installLarge gives a follower that was away a large state over a dripping link. Meanwhile the link breaks, or the
// leader is killed, or nothing happens.
func installLarge(p *play) {
	node, rest := p.others[0], p.field.others(p.others[0])
	p.links.split([]string{node}, rest)
	value, del := strings.Repeat("v", largeBytes), []string{"DEL"}
	for i := range largeValues {
		key := loadKey(i)
		del = append(del, key)
		p.load("SET", key, value, "EX", loadLease)
	}
	for i := range largeKeys / 1000 {
		p.load("EVAL", largeScript, "1", fmt.Sprintf("%ssmall:%d:", loadPrefix, i), loadLease)
	}
	p.undo = append(p.undo, func() { // when there is a majority again
		restartAll(p.field, p.others)
		until := time.Now().Add(loadCleanMax)
		for attempt := 0; time.Now().Before(until) && !p.clients.do(attempt, del); attempt++ {
			time.Sleep(50 * time.Millisecond)
		}
	})
	for range 2 {
		p.write(p.leader)
		p.save(rest)
	}
	p.links.reset(node, rest)
	p.links.Clear()
	p.links.into(node, rest, target.Shape{BytesPerSecond: largePerS})
	p.say("%s installs %d MiB at %d MiB/s", node, largeValues*largeBytes>>20, largePerS>>20)
	p.between(500*time.Millisecond, 6*time.Second)
	switch p.d.IntN(3) {
	case 0:
		p.say("break the link")
		p.Target.Net().Reset(node, p.leader)
	case 1:
		p.kill(p.leader)
	}
	p.say("caught up: %v", p.until(largeInstalls, func() bool { return p.level(node) }))
}

// load sends a large write to the leader and ignores the outcome. It does nothing when the time of the run has ended.
func (p *play) load(cmd ...string) {
	if !p.isOver() {
		_, _ = p.Target.Do(p.leader, loadAnswerMax, cmd...)
	}
}

// level reports whether a node has applied about as much as another one.
func (p *play) level(node string) bool {
	mine, err := p.applied(node)
	other, errOther := p.applied(p.others[1])
	return err == nil && errOther == nil && mine+100 > other
}

// applied returns the index of the last entry that a node has applied.
func (p *play) applied(node string) (index int64, err error) {
	r, err := p.Target.Do(node, time.Second, "LOCKD", "HASH")
	if err != nil || len(r.Elems) != 2 {
		return 0, errors.Join(err, errors.New(r.Text()))
	}
	return r.Elems[0].Int, nil
}

// electedLook bounds the wait for a node to become leader.
const electedLook = 2 * time.Second

// loseElected takes a leader away as soon as it leads.
func loseElected(p *play) {
	to := p.others[0]
	p.elect(to)
	p.between(0, 30*time.Millisecond)
	p.away(to)
}

// elect hands leadership to a node, and waits until that says it leads.
func (p *play) elect(to string) {
	p.say("hand over to %s", to)
	go handTo(p.field, to)
	p.until(electedLook, func() bool {
		r, err := p.Target.Do(to, time.Second, "ROLE")
		return err == nil && len(r.Elems) > 0 && r.Elems[0].Str == "master"
	})
}

// leaveWithoutAnswers hides the outcomes of a follower's requests from it, both the leader's answers and the log; then
// the leader goes. No request may be done twice.
func leaveWithoutAnswers(p *play) {
	node, other := p.others[0], p.others[1]
	p.say("no entries and no answers for %s", node)
	let := p.catch(node, target.Catch{Each: true, Act: target.Swallow}, target.MsgAppend, target.MsgAnswer)
	defer func() {
		let()
		p.links.reset(node, p.field.others(node)) // or the senders of lost messages would wait on
	}()
	p.between(50*time.Millisecond, 700*time.Millisecond)
	switch p.d.IntN(8) {
	case 0:
		p.kill(p.leader)
	case 1:
		p.say("reset")
		p.Target.Net().Reset(node, p.leader)
	case 2:
		p.elect(other)
	default:
		p.say("stop %s", p.leader)
		p.touched[p.leader] = true
		stopNode(p.field, p.leader)
	}
}

// Times of the scenario stale.
const (
	staleMin  = 1500 * time.Millisecond // longer than a node waits for a sign of life of its peer
	staleMax  = 3500 * time.Millisecond
	staleBack = 300 * time.Millisecond // time to hand leadership back
)

// holdRequests delays requests of a follower to the leader, on a connection that the follower gives up meanwhile. The
// leader goes on, or another one leads for a while. By the time they arrive the follower knows their outcomes, so they
// must have no effect.
func holdRequests(p *play) {
	node, other := p.others[0], p.others[1]
	hold := staleMin + time.Duration(p.d.Int64N(int64(staleMax-staleMin)))
	p.say("what %s asks for comes after %.1f s", node, hold.Seconds())
	until := time.Now().Add(hold)
	let := p.catch(node, target.Catch{Act: target.Hold, Hold: hold}, target.MsgForward)
	defer let()
	if p.d.IntN(2) == 0 {
		p.between(20*time.Millisecond, 200*time.Millisecond)
		p.elect(other)
		// The follower's requests go to the other leader until shortly before the held ones arrive.
		time.Sleep(time.Until(until) - staleBack - time.Duration(p.d.Int64N(int64(staleBack))))
		p.elect(p.leader)
	}
	time.Sleep(time.Until(until))
	p.between(50*time.Millisecond, 500*time.Millisecond)
}

// Times of the fault deposed.
const (
	deposedTries = 3
	deposedLog   = 60 * time.Millisecond  // for a leader to log a write and send it, less than its lease
	deposedElect = 4 * time.Second        // for another leader
	deposedLate  = 100 * time.Millisecond // for what was held back to arrive, and to be answered
	deposedWait  = 2 * time.Second        // for the answer to the write
	deposedPast  = 5                      // entries by which the next leader passes the write
)

// answerDeposed has an entry of a leader arrive at the others when another leader has gone past it, and the leader, which
// was paused meanwhile, reads their answers. They must not take the entry for one that they have: the leader would take
// it for committed, and acknowledge a write that is lost.
func answerDeposed(p *play) {
	for range deposedTries {
		if p.cast(); p.leader == "" || p.isOver() {
			return
		}
		p.depose()
		p.links.Clear()
		p.Target.Resume(p.leader)
		if !settled(p.field) {
			return
		}
	}
}

// depose does that once.
func (p *play) depose() {
	rest := p.field.others(p.leader)
	let := p.catch(p.leader, target.Catch{Each: true, Act: target.Swallow}, target.MsgHeartbeat) // their answers have a later term
	defer let()
	c, err := p.Target.Dial(p.leader, time.Second)
	if err != nil {
		return
	}
	defer c.Close()
	p.links.cut([]string{p.leader}, rest)
	key := fmt.Sprintf("%s:deposed:%d", provokeKey, p.d.Uint64())
	if c.Send(deposedWait+deposedElect, []string{"SET", key, p.leader, "EX", loadLease}) != nil {
		return
	}
	time.Sleep(deposedLog)
	p.touched[p.leader] = true
	p.Target.Pause(p.leader)
	if !p.until(deposedElect, func() bool { return !slices.Contains([]string{"", p.leader}, p.Target.Leader()) }) {
		p.say("nobody follows %s", p.leader)
		return
	}
	for range deposedPast {
		p.write(rest[0])
	}
	p.links.Clear()
	time.Sleep(deposedLate)
	p.Target.Resume(p.leader)
	r, err := c.Wait(deposedWait)
	p.say("%s is deposed: %q, %v", p.leader, r.Text(), err)
	p.found.stake("deposed-acknowledges-nothing")
	if err != nil || r.Str != "OK" {
		return
	}
	if now, err := p.Target.Do(rest[0], deposedWait+deposedElect, "GET", key); err == nil && now.Nil {
		p.found.add("acknowledged when deposed", fmt.Sprintf("%s has acknowledged SET %s, and it is lost", p.leader, key))
	}
}

// disturbStopping pauses a leader while it stops, or cuts it off.
func disturbStopping(p *play) {
	p.say("stop %s", p.leader)
	p.touched[p.leader] = true
	var stopping sync.WaitGroup
	stopping.Go(func() { p.Target.Shutdown(p.leader) })
	p.between(0, 150*time.Millisecond)
	if p.d.IntN(2) == 0 {
		p.say("pause it")
		p.Target.Pause(p.leader)
		p.between(500*time.Millisecond, 3*time.Second)
		p.Target.Resume(p.leader)
	} else {
		p.say("cut it")
		p.links.split([]string{p.leader}, p.others)
	}
	stopping.Wait()
}

// joinLook bounds the wait for a joining member.
const joinLook = 3 * time.Second

// loseLeaderOfJoin kills the leader when a new member was added and has no vote yet.
func loseLeaderOfJoin(p *play) {
	node := p.others[0]
	p.touched[node] = true
	before := p.Target.ID(node)
	p.Target.Replace(node)
	_ = p.Target.Restart(node)
	id := p.Target.ID(node)
	if id == before {
		p.say("%s cannot be spared", node)
		return
	}
	p.say("%s joins", id)
	for until := time.Now().Add(joinLook); time.Now().Before(until) && !p.listed(id); time.Sleep(2 * time.Millisecond) {
	}
	p.between(0, 20*time.Millisecond)
	p.kill(p.leader)
}

// listed reports whether the leader lists a member.
func (p *play) listed(id string) bool {
	r, err := p.Target.Do(p.leader, time.Second, "LOCKD", "MEMBERS")
	return err == nil && slices.ContainsFunc(r.Elems, func(m target.Reply) bool {
		return strings.HasPrefix(strings.Join(m.Texts(), " "), "id "+id+" ")
	})
}

// cutAfterInstall gives a follower that was away a snapshot, and cuts one direction of its links about when the
// snapshot has arrived.
func cutAfterInstall(p *play) {
	node := p.others[0]
	rest := p.field.others(node)
	outrun(p.field, node)
	p.links.Clear()
	p.say("%s installs", node)
	p.between(10*time.Millisecond, 500*time.Millisecond)
	if p.d.IntN(2) == 0 {
		p.say("mute")
		p.links.cut([]string{node}, rest)
	} else {
		p.say("deaf")
		p.links.cut(rest, []string{node})
	}
	p.between(200*time.Millisecond, 1500*time.Millisecond)
	if p.d.IntN(2) == 0 {
		p.kill(p.leader)
	}
}

// Times of the scenario folder.
const (
	folderServes = 10 * time.Second // for a restarted node to serve
	folderKnown  = time.Second      // for all nodes to connect with it
	folderFound  = 10 * time.Second // for a node on a copy to learn that from a node that it has met
)

// putFolderBack starts a follower on a copy of its data folder from before its last start, together with a node that
// was away since then. They are a majority that has forgotten the promises since then, so the follower must not serve.
func putFolderBack(p *play) {
	node, other := p.others[0], p.others[1]
	p.touched[node] = true
	p.Target.Shutdown(node)
	copied, err := os.MkdirTemp(filepath.Dir(p.Target.Dir(node)), "copy-")
	if err == nil {
		p.undo = append(p.undo, func() { _ = os.RemoveAll(copied) })
		err = p.Target.Folder(node).CopyTo(filepath.Join(copied, "dir"))
	}
	_ = p.Target.Restart(node)
	if !p.until(folderServes, func() bool { return p.Target.Serving(node) }) || err != nil {
		p.say("%s cannot be copied: %v", node, err)
		return
	}
	time.Sleep(folderKnown)
	p.say("copy of %s", node)
	p.kill(other)
	p.between(100*time.Millisecond, 500*time.Millisecond)
	p.write(p.leader)
	p.kill(p.leader)
	if !p.Target.PutBack(node, filepath.Join(copied, "dir")) {
		p.say("its disk cannot be spared")
		return
	}
	p.say("put back")
	_ = p.Target.Restart(other)
	_ = p.Target.Restart(node)
	// This is judged even when the time of the run has ended: the node must not go on.
	for until := time.Now().Add(folderFound); p.Target.Running(node) && time.Now().Before(until); {
		time.Sleep(20 * time.Millisecond)
	}
	if p.Target.Running(node) {
		p.found.add(
			"trusts a copy",
			fmt.Sprintf("%s goes on for %s on a copy of its data folder from before its last start, beside %s, which "+
				"knows that start",
				node, folderFound, other),
		)
		p.Target.Kill(node)
	}
}

// until waits until so returns true. It reports false after a while, or when the time of the run has ended.
func (p *play) until(within time.Duration, so func() bool) bool {
	for until := time.Now().Add(within); time.Now().Before(until) && !p.isOver(); p.wait(20 * time.Millisecond) {
		if so() {
			return true
		}
	}
	return false
}
