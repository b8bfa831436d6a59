package nemesis

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"lockd/jepsen-lite/target"
)

// ledger has the entries that witnesses write while an operator works. There is a witness at each node, and it reaches
// the node without the proxies. Each entry is a script that appends to one list, and notes the same in one of a few
// other keys. So the list tells what the other keys hold at that moment.
type ledger struct {
	*field
	key  string
	stop func() // ends the witnesses

	mu   sync.Mutex
	pens map[string]*pen // by node
}

// pen is the entries of one witness, which have the numbers 1, 2, 3 ...
type pen struct {
	sent, acked int
	not         map[int]bool // entries that were not acknowledged
	troubles    []trouble
	last        time.Time     // of the last acknowledgement
	gap         time.Duration // longest time between two acknowledgements
}

// trouble is a request that was not done, or whose outcome is unknown.
type trouble struct {
	from, to time.Time
	why      string
}

// Sizes and times of a ledger.
const (
	ledgerPrefix = "operator:"
	ledgerSlots  = 5 // other keys
	ledgerLease  = "120000"
	ledgerPause  = 5 * time.Millisecond // between two entries of a witness
	ledgerWait   = 6 * time.Second      // longer than a node holds a command without a leader
	ledgerScript = "redis.call('rpush', KEYS[1], ARGV[1]) redis.call('pexpire', KEYS[1], ARGV[2]) " +
		"redis.call('set', KEYS[2], ARGV[1], 'px', ARGV[2]) return 'OK'"
	ledgerRead = "local all = redis.call('lrange', KEYS[1], 0, -1) for i = 2, #KEYS do " +
		"all[#all + 1] = redis.call('get', KEYS[i]) or '' end return all"
	lockPx = "60000"
)

// openLedger has witnesses write until the ledger is closed.
func openLedger(f *field, dice uint64) *ledger {
	l := &ledger{
		field: f, key: fmt.Sprintf("%s%d", ledgerPrefix, dice), pens: map[string]*pen{},
	}
	ctx, cancel := context.WithCancel(context.Background())
	var writing sync.WaitGroup
	for _, node := range f.Target.Nodes() {
		p := &pen{not: map[int]bool{}}
		l.pens[node] = p
		writing.Go(func() { l.write(ctx, node, p) })
	}
	l.stop = func() {
		cancel()
		writing.Wait()
	}
	return l
}

// name returns a key of the ledger.
func (l *ledger) name(of string) string { return l.key + ":" + of }

// slots returns the other keys.
func (l *ledger) slots() (keys []string) {
	for i := range ledgerSlots {
		keys = append(keys, l.name("slot"+strconv.Itoa(i)))
	}
	return keys
}

// write is the work of a witness.
func (l *ledger) write(ctx context.Context, node string, p *pen) {
	var c *target.Conn
	for {
		if c == nil {
			c, _ = l.Target.Dial(node, time.Second) // the node may be away
		}
		if c != nil && !l.entry(c, node, p) {
			c.Close()
			c = nil
		}
		if !sleep(ctx, ledgerPause) {
			if c != nil {
				c.Close()
			}
			return
		}
	}
}

// entry writes one entry, and reports whether the connection is whole.
func (l *ledger) entry(c *target.Conn, node string, p *pen) bool {
	l.mu.Lock()
	p.sent++
	n := p.sent
	l.mu.Unlock()
	began := time.Now()
	r, err := c.Do(ledgerWait, "EVAL", ledgerScript, "2", l.key, l.slots()[n%ledgerSlots], entryOf(node, n), ledgerLease)
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		p.troubles = append(p.troubles, trouble{began, now, err.Error()})
	case r.IsErr():
		p.troubles = append(p.troubles, trouble{began, now, r.Str})
	default:
		if p.acked = n; !p.last.IsZero() {
			p.gap = max(p.gap, now.Sub(p.last))
		}
		p.last = now
		return true
	}
	p.not[n] = true
	return err == nil
}

// entryOf returns an entry of the witness at a node.
func entryOf(node string, n int) string { return node + " " + strconv.Itoa(n) }

// acked returns the last acknowledged entry of each witness.
func (l *ledger) acked() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[string]int{}
	for node, p := range l.pens {
		all[node] = p.acked
	}
	return all
}

// measure begins to measure how long no entry is acknowledged at each node.
func (l *ledger) measure() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.pens {
		p.gap, p.last = 0, time.Now()
	}
}

// gaps returns the longest time in which no entry was acknowledged since measure, by node.
func (l *ledger) gaps() map[string]time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[string]time.Duration{}
	for node, p := range l.pens {
		all[node] = max(p.gap, time.Since(p.last))
	}
	return all
}

// reading returns the command that reads the list and the other keys at one moment.
func (l *ledger) reading() []string {
	return slices.Concat([]string{"EVAL_RO", ledgerRead, strconv.Itoa(1 + ledgerSlots), l.key}, l.slots())
}

// check compares what reading has returned with what was written. lacks says what is missing of what it must have;
// torn, why it cannot be the state at one moment.
func (l *ledger) check(read []string, sure map[string]int) (lacks, torn string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	entries, slots := read[:max(0, len(read)-ledgerSlots)], read[max(0, len(read)-ledgerSlots):]
	has, newest, notes := map[string]bool{}, map[string]int{}, make([]string, ledgerSlots)
	for _, entry := range entries {
		node, number, _ := strings.Cut(entry, " ")
		n, err := strconv.Atoi(number)
		if p := l.pens[node]; err != nil || p == nil || n > p.sent || n <= newest[node] {
			return lacks, fmt.Sprintf("has the entry %q after %q", entry, entryOf(node, newest[node]))
		}
		has[entry], newest[node], notes[n%ledgerSlots] = true, n, entry
	}
	if !slices.Equal(notes, slots) {
		return lacks, fmt.Sprintf("has the entries %q in its keys, and by its list it has %q in them", slots, notes)
	}
	for _, node := range slices.Sorted(maps.Keys(l.pens)) {
		for n := 1; n <= max(sure[node], newest[node]); n++ {
			switch entry := entryOf(node, n); {
			case has[entry] || l.pens[node].not[n]:
			case n < newest[node]:
				return lacks, fmt.Sprintf("has %q, and not %q, which was acknowledged before", entryOf(node, newest[node]), entry)
			case n <= sure[node]:
				return fmt.Sprintf("has no %q, which was acknowledged before", entry), ""
			}
		}
	}
	return "", ""
}

// lock takes a lock of the ledger, by a token of its name. It returns its fence, or 0 if no node grants it in time.
func (l *ledger) lock(of string) (fence int64) {
	for until := time.Now().Add(2 * ledgerWait); time.Now().Before(until); {
		for _, node := range l.Target.Nodes() {
			if l.isOver() {
				return 0
			}
			r, err := l.Target.Do(node, ledgerWait, "LOCK", l.name(of), of, "PX", lockPx)
			if err == nil && r.Kind == ':' {
				return r.Int
			}
		}
		if !l.wait(heirLook) {
			return 0
		}
	}
	return 0
}

// close ends the witnesses, and removes what they wrote.
func (l *ledger) close() {
	l.stop()
	del := slices.Concat([]string{"DEL", l.key, l.name("held"), l.name("later"), l.name("last")}, l.slots())
	for i := range unreadValues {
		del = append(del, l.name("large"+strconv.Itoa(i)))
	}
	for until := time.Now().Add(loadCleanMax); time.Now().Before(until); time.Sleep(heirLook) {
		for _, node := range l.Target.Nodes() {
			if r, err := l.Target.Do(node, time.Second, del...); err == nil && !r.IsErr() {
				return
			}
		}
	}
}
