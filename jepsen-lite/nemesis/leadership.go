package nemesis

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lockd/jepsen-lite/target"
)

// transfer hands leadership to another node.
func transfer(f *field, fault Fault) (string, func()) {
	once := func() {
		to := f.pick("follower", fault.Dice+uint64(time.Now().UnixNano()))[0]
		// it is refused while the cluster is broken
		_, _ = f.Target.Do(to, 2*time.Second, "LOCKD", "TRANSFER", f.Target.ID(to))
	}
	if fault.Variant == "often" {
		return "transfer often", repeat(400*time.Millisecond, once)
	}
	once()
	return "transfer once", nil
}

// handTo hands leadership to a node.
func handTo(f *field, node string) {
	_, _ = f.Target.Do(node, 2*time.Second, "LOCKD", "TRANSFER", f.Target.ID(node)) // it may lead already, or be away
}

// Times of the fault late.
const (
	lateHold   = 140 * time.Millisecond // longer than the time between two heartbeats
	lateNever  = 5 * time.Second        // longer than the rest of the fault
	latePause  = 4 * time.Second        // bounds the wait for another leader
	lateLook   = 10 * time.Millisecond
	lateWrites = 400 * time.Millisecond // for the new leader to acknowledge writes
	lateFirst  = 2 * time.Millisecond
	lateReads  = 300 * time.Millisecond // for the old leader to answer reads
	lateSettle = time.Second            // for all nodes to learn the new leader
	lateOrder  = 30 * time.Millisecond  // for what is on its way to arrive
	lateBy     = 200 * time.Millisecond // two of them and a heartbeat take less than a leader's lease
)

// late delays the last answers to a leader until another leader is elected, again and again. A leader must trust no
// answer that was sent before it asked.
func late(f *field, fault Fault) (string, func()) {
	dice := fault.Dice
	once := lateWhenStopped
	switch fault.Variant {
	case "hand-over":
		once = lateInHandOver
	case "overtaken hand-over":
		once = overtakenInHandOver
	}
	return "late answers " + fault.Variant, repeat(lateSettle, func() {
		dice = dice*6364136223846793005 + 1442695040888963407
		leader := f.pick("leader", dice)[0]
		f.limit.briefly(leader, func() { once(f, leader, dice>>32) })
	})
}

// lateInHandOver has a leader hand over while the answers to it are on their way for long: it takes itself for the
// leader for as long after the other one has begun to lead.
func lateInHandOver(f *field, leader string, dice uint64) {
	others := f.others(leader)
	f.links.into(leader, others, target.Shape{Delay: lateBy})
	handOn(f, leader, others[dice%uint64(len(others))])
	f.links.into(leader, others, target.Shape{})
}

// overtakenInHandOver has a leader hand over while it hears late of the next term from Raft, and at once from the answers
// to its own questions: these are of nodes that follow the other one. What the leader says before the other one is told to
// lead arrives before that.
func overtakenInHandOver(f *field, leader string, dice uint64) {
	others := f.others(leader)
	f.links.markHarmed(leader, others)
	defer f.links.Clear()
	order := f.Target.Net().Catch(target.Catch{Node: leader, Kind: target.MsgTimeoutNow, Act: target.Hold, Hold: lateOrder})
	defer order.Cancel()
	handed := make(chan struct{})
	go func() {
		defer close(handed)
		handOn(f, leader, others[dice%uint64(len(others))])
	}()
	defer func() { <-handed }()
	for until := time.Now().Add(time.Second); !order.Struck(); time.Sleep(lateFirst) {
		if time.Now().After(until) {
			return // it leads no more, or a node is away
		}
	}
	for _, kind := range []string{target.MsgVote, target.MsgAppend, target.MsgHeartbeat} {
		held := f.Target.Net().Catch(target.Catch{Node: leader, Kind: kind, Each: true, Act: target.Hold, Hold: lateBy})
		defer held.Cancel()
	}
	time.Sleep(lateOrder + lateBy)
}

// handOn has a leader hand over to a node. It may be refused: the leader may be another one by now.
func handOn(f *field, leader, to string) {
	_, _ = f.Target.Do(leader, 2*time.Second, "LOCKD", "TRANSFER", f.Target.ID(to))
}

// lateWhenStopped holds back the answers to the leader, and pauses it until another one is elected. Just before the
// leader continues, the answers of enough nodes for a majority arrive, so it still takes itself for the leader. Just
// after, when it has asked whether it leads, the answers of the rest arrive. Anything that was sent after the pause
// began, also by the new leader, arrives later.
func lateWhenStopped(f *field, leader string, dice uint64) {
	others := f.others(leader)
	first, rest := others[:len(others)/2], others[len(others)/2:]
	f.links.into(leader, others, target.Shape{Cut: true})
	time.Sleep(lateHold)
	f.links.into(leader, others, target.Shape{Cut: true, Delay: lateNever})
	f.Target.Pause(leader)
	until := time.Now().Add(latePause)
	for time.Now().Before(until) && slices.Contains([]string{"", leader}, f.Target.Leader()) {
		time.Sleep(lateLook)
	}
	time.Sleep(lateWrites)
	f.links.into(leader, first, target.Shape{Delay: lateNever})
	time.Sleep(lateFirst)
	f.Target.Resume(leader)
	time.Sleep(time.Duration(dice%10_000) * time.Microsecond)
	f.links.into(leader, rest, target.Shape{Delay: lateNever})
	time.Sleep(lateReads)
	f.links.reset(leader, others) // or the bytes that are on their way would hold up those after them
	f.links.into(leader, others, target.Shape{})
}

// Times of the fault drain.
const (
	drainWait   = "10s"                   // --wait
	drainIn     = 3 * time.Second         // for a node to be ready to be taken away, in a cluster that is well
	drainAfter  = 500 * time.Millisecond  // for the requests that were on their way
	drainGapMax = 1500 * time.Millisecond // between two writes that one node does
	drainLine   = time.Second             // for two clients to get in line
	drainNeeds  = "1s"                    // --wait where no wait helps

	takenBy      = 200 * time.Millisecond // by which what a node and the others send is late: its requests take longer
	takenIn      = 150 * time.Millisecond // for a node to take requests: less than they need
	takenClients = 8
)

// drained has `lockd drain` make a node ready to be taken away, in a cluster that is well. Clients at all nodes must not
// notice it, nor those who wait in line for a lock. Then the node is taken away: it answers what it has taken, and the
// others go on. A node that is "needed" has to stay.
func drained(f *field, fault Fault) (string, func()) {
	what := "drain " + fault.Variant
	if !settled(f) {
		return what + " (not settled)", nil
	}
	if fault.Variant == "needed" {
		return drainNeeded(f, what, f.pick("any", fault.Dice)[0])
	}
	node := f.pick(fault.Variant, fault.Dice)[0]
	l := openLedger(f, fault.Dice)
	defer l.close()
	line := l.standInLine(node)
	defer line.leave()
	if !l.wait(drainLine) {
		return what, nil
	}
	led := f.Target.Leader() == node
	ctx, cancel := f.untilOver(toolMax)
	defer cancel()
	began := time.Now()
	status, said, err := f.Target.Tool(ctx, append([]string{"drain", "--wait", drainWait}, f.Target.Reach(true, node)...)...)
	took := time.Since(began)
	if err != nil {
		return what + ": " + err.Error(), nil
	}
	f.found.stake("drained-in-time")
	if still := led && f.Target.Leader() == node; status != 0 || took > drainIn || still {
		f.found.add("drained late", fmt.Sprintf("%s, at %s: status %d after %.1f s, it leads: %v; %s are well: %s", node,
			began.Format(clockTime), status, took.Seconds(), still, drainIn, strings.TrimSpace(said)))
	}
	l.wait(drainAfter)
	line.serve()
	l.stop()
	if led {
		l.unnoticed(node, began)
	}
	if status == 0 {
		takeAway(f, node)
	}
	return fmt.Sprintf("%s %s in %.1f s", what, node, took.Seconds()), nil
}

// drainNeeded kills as many nodes as a cluster may lose, and judges that no other one may be taken away then.
func drainNeeded(f *field, what, node string) (string, func()) {
	away := f.others(node)[:(len(f.Target.Nodes())-1)/2]
	for _, n := range away {
		f.Target.Kill(n)
	}
	undo := func() { restartAll(f, away) }
	ctx, cancel := f.untilOver(toolMax)
	defer cancel()
	status, said, err := f.Target.Tool(ctx, append([]string{"drain", "--wait", drainNeeds}, f.Target.Reach(true, node)...)...)
	if err != nil {
		return what + ": " + err.Error(), undo
	}
	f.found.stake("drain-tells")
	if status == 0 {
		f.found.add("needed node let go", fmt.Sprintf("%s, beside which %v are dead: %s", node, away, strings.TrimSpace(said)))
	}
	return fmt.Sprintf("%s %s beside %v", what, node, away), undo
}

// takeAway ends a node that was drained. What its clients have sent is on its way to the other nodes then, which are
// slow to answer; and afterwards the others take writes.
func takeAway(f *field, node string) {
	var sent []*target.Conn
	defer func() {
		for _, c := range sent {
			c.Close()
		}
	}()
	others := f.others(node)
	f.links.into(node, others, target.Shape{Delay: takenBy})
	f.links.outOf(node, others, target.Shape{Delay: takenBy})
	for range takenClients {
		c, err := f.Target.Dial(node, time.Second)
		if err != nil || c.Send(ledgerWait, []string{"SET", provokeKey, node}) != nil {
			break
		}
		sent = append(sent, c)
	}
	if !f.wait(takenIn) { // the node need not have got what was sent
		f.links.Clear()
		return
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.Target.Shutdown(node)
	}()
	for until := time.Now().Add(ledgerWait); len(sent) > 0; sent = sent[1:] {
		r, err := sent[0].Wait(max(time.Until(until), takenIn))
		sent[0].Close()
		f.found.stake("taken-before-end")
		if err != nil || r.Str != "OK" {
			f.found.add("taken and not answered", fmt.Sprintf("%s was told to end %s after it got a SET, which it answers by "+
				"%q, %v", node, takenIn, r.Text(), err))
		}
	}
	<-ended
	f.links.Clear()
	f.found.stake("drain-tells")
	if !f.isOver() && !takesWriteSoon(f, others[0]) && !takesWriteSoon(f, others[0]) {
		f.found.add("needed node let go", fmt.Sprintf("%s was drained and has ended, and %s takes no write in time", node,
			others[0]))
	}
	restartAll(f, []string{node})
}

// unnoticed judges that the witnesses did not notice that a leader was drained.
func (l *ledger) unnoticed(node string, began time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for at, p := range l.pens {
		l.found.stake("drain-unnoticed")
		for _, t := range p.troubles {
			if t.to.After(began) {
				l.found.add("noticed a drain", fmt.Sprintf("a write at %s, %.3f s after the drain of the leader %s began: %s",
					at, t.from.Sub(began).Seconds(), node, t.why))
			}
		}
		if p.gap > drainGapMax {
			l.found.add("noticed a drain", fmt.Sprintf("no write at %s for %.1f s while the leader %s was drained", at,
				p.gap.Seconds(), node))
		}
	}
}

// inLine is two clients that wait for the lock "held" of a ledger, one behind the other.
type inLine struct {
	l     *ledger
	conns [2]*target.Conn // nil: there is none
}

// standInLine takes the lock, and has a client wait for it at a node, and then another one at another node.
func (l *ledger) standInLine(node string) *inLine {
	line := &inLine{l: l}
	if l.lock("held") == 0 {
		return line
	}
	for i, at := range []string{node, l.others(node)[0]} {
		c, err := l.Target.Dial(at, time.Second)
		if err != nil {
			return line
		}
		line.conns[i] = c
		if c.Send(ledgerWait, []string{"LOCK", l.name("held"), lineToken[i], "PX", lockPx, "WAIT", lockPx}) != nil ||
			!l.wait(drainAfter) {
			return line
		}
	}
	return line
}

// lineToken are the tokens of the clients in line.
var lineToken = [2]string{"first", "second"}

// serve releases the lock, and judges that the first client gets it, and then the second one.
func (line *inLine) serve() {
	l := line.l
	if line.conns[1] == nil || l.isOver() {
		return
	}
	holder := "held"
	for i, c := range line.conns {
		if r, err := l.Target.Do(l.Target.Nodes()[0], ledgerWait, "UNLOCK", l.name("held"), holder); err != nil || r.Int != 1 {
			l.found.add("waiter forgotten", fmt.Sprintf("%s does not hold the lock after a drain: %q, %v", holder, r.Text(), err))
			return
		}
		l.found.stake("drain-keeps-waiters")
		if r, err := c.Wait(drainGapMax); err != nil || r.Kind != ':' {
			l.found.add("waiter forgotten", fmt.Sprintf("the %s in line, after a drain, when %s released the lock: %q, %v",
				lineToken[i], holder, r.Text(), err))
			return
		}
		holder = lineToken[i]
	}
}

// leave breaks the connections.
func (line *inLine) leave() {
	for _, c := range line.conns {
		if c != nil {
			c.Close()
		}
	}
}
