package cluster

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// A data folder that is put back as it was before (a copy, a virtual machine's snapshot) has
// forgotten what its node has promised since: it would vote against it, and a majority of such
// nodes grants a lock twice. No majority can see that, but those can that have met the node
// since. So a folder counts its starts and draws a token for each, both on the disk before
// anything else is done; the others keep the last of each that they have met, on the disk
// before they speak to the node. A node whose own history does not contain that start runs on
// a copy from before it.

// startsFile holds what this node has seen of others, beside its own meta file.
const (
	startsFile  = "peers.json"
	startsMax   = 1 << 20 // bytes
	tokenLen    = 10
	tokensKept  = 128 // of a folder's starts; who was not met for longer is not compared
	seenMax     = 1024
	startsTitle = "lockd peers"
)

// begin counts a start.
func (m dirMeta) begin() dirMeta {
	m.Format = dirFormat
	m.Starts++
	m.Tokens += rand.Text()[:tokenLen]
	m.Tokens = m.Tokens[max(0, len(m.Tokens)-tokensKept*tokenLen):]
	return m
}

// token is what a node drew at a start; false if it does not say.
func (who identity) token(start uint64) (string, bool) {
	back := who.Starts - start
	if start == 0 || start > who.Starts || back >= uint64(len(who.Tokens)/tokenLen) {
		return "", false
	}
	end := len(who.Tokens) - int(back)*tokenLen
	return who.Tokens[end-tokenLen : end], true
}

// startSeen is the last start of a data folder that this node has met.
type startSeen struct {
	ID          string `json:"id"`
	Incarnation string `json:"incarnation"`
	Start       uint64 `json:"start"`
	Token       string `json:"token"`
	Lost        string `json:"lost,omitempty"` // what it was found to have lost: it is refused for ever
}

// startBook keeps the starts of others that this node has met.
type startBook struct {
	path string               // of the data folder; "" in memory
	keep func(id string) bool // whether it must not be forgotten, however many come

	saving sync.Mutex // one change at a time
	mu     sync.Mutex
	seen   map[string]startSeen // by folderKey; replaced as a whole
}

// folderKey names a data folder.
func folderKey(id, incarnation string) string { return id + " " + incarnation }

// open reads the book of a data folder.
func (b *startBook) open(d *dataDir) error {
	b.path = d.path
	text, err := readFileMax(filepath.Join(d.path, startsFile), startsMax)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		b.seen, err = decodeBook(text)
	}
	if err != nil {
		return d.damaged(fmt.Errorf("%s: %w", startsFile, err))
	}
	return nil
}

// bookText is the book as it stands in its file: a line of JSON, and one with its checksum.
type bookText struct {
	Program string      `json:"program"` // startsTitle
	Seen    []startSeen `json:"seen"`
}

func decodeBook(text []byte) (map[string]startSeen, error) {
	line, sum, _ := bytes.Cut(text, []byte("\n"))
	var t bookText
	if err := json.Unmarshal(line, &t); err != nil {
		return nil, fmt.Errorf("unreadable: %w", err)
	}
	if want := fmt.Sprintf("crc32c %08x\n", crc32.Checksum(line, castagnoli)); string(sum) != want || t.Program != startsTitle {
		return nil, errors.New("its checksum does not match")
	}
	seen := map[string]startSeen{}
	for _, s := range t.Seen {
		seen[folderKey(s.ID, s.Incarnation)] = s
	}
	return seen, nil
}

// save writes a whole new book, and takes it into use once it is on the disk.
func (b *startBook) save(seen map[string]startSeen) error {
	if b.path != "" {
		t := bookText{Program: startsTitle}
		for _, s := range seen {
			t.Seen = append(t.Seen, s)
		}
		line, err := json.Marshal(t)
		if err != nil {
			return err
		}
		text := fmt.Appendf(line, "\ncrc32c %08x\n", crc32.Checksum(line, castagnoli))
		if err := replaceFile(b.path, startsFile, text); err != nil {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen = seen
	return nil
}

func (b *startBook) last(who identity) startSeen {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seen[folderKey(who.ID, who.Incarnation)]
}

// meet refuses a node that runs on a copy of its folder, and remembers the start of any
// other before it is spoken to.
func (b *startBook) meet(who identity) error {
	news, err := judgeStart(who, b.last(who))
	if err != nil || !news {
		return err
	}
	b.saving.Lock()
	defer b.saving.Unlock()
	last := b.last(who) // it may have been met on another connection
	if news, err = judgeStart(who, last); err != nil || !news {
		return err
	}
	last.ID, last.Incarnation, last.Start = who.ID, who.Incarnation, who.Starts
	last.Token, _ = who.token(who.Starts)
	return b.note(last)
}

// note remembers what was seen of a folder. saving is held.
func (b *startBook) note(s startSeen) error {
	b.mu.Lock()
	next := map[string]startSeen{}
	maps.Copy(next, b.seen)
	b.mu.Unlock()
	for key, old := range next {
		if len(next) >= seenMax && !b.keep(old.ID) {
			delete(next, key)
		}
	}
	next[folderKey(s.ID, s.Incarnation)] = s
	if err := b.save(next); err != nil {
		return fmt.Errorf("node %s is not spoken to before it is on the disk that it was met: %w", s.ID, err)
	}
	return nil
}

// judgeStart compares a node's history with its last start that was seen. news says that
// this one is later.
func judgeStart(who identity, last startSeen) (news bool, err error) {
	token, known := who.token(last.Start)
	switch {
	case last.Lost != "":
		return false, errors.New(last.Lost)
	case who.Starts < last.Start, known && token != last.Token:
		return false, fmt.Errorf("node %s %s, made before its start %d that was seen here: what it has promised since is forgotten, so it must not vote again; remove it with LOCKD REMOVE %s and add it under a new id with an empty data folder", who.ID, saysCopied, last.Start, who.ID)
	}
	return who.Starts > last.Start, nil
}

// condemn has a folder refused from now on.
func (b *startBook) condemn(who identity, why string) error {
	b.saving.Lock()
	defer b.saving.Unlock()
	last := b.last(who)
	last.ID, last.Incarnation, last.Lost = who.ID, who.Incarnation, why
	return b.note(last)
}

// acknowledged keeps, as long as this process lives, how far members have confirmed to have
// what is committed: a log that is shorter when they come back has lost entries.
type acknowledged struct {
	mu      sync.Mutex
	folders map[string]ack
	heard   map[raft.ServerID]time.Duration // monotonic: when a member last answered this leader
}

// ack is what a data folder is known to hold.
type ack struct {
	term uint64 // of this leader, when the folder's log was its own ...
	has  uint64 // ... up to here
	sure uint64 // and up to here it was committed
}

// noteAck hears that a member has this leader's log up to an index.
func (n *Node) noteAck(id raft.ServerID, term, index uint64) {
	who, ok := n.identityOf(string(id))
	if !ok {
		return
	}
	n.acked.mu.Lock()
	defer n.acked.mu.Unlock()
	key := folderKey(who.ID, who.Incarnation)
	a := n.acked.folders[key]
	if a.term != term {
		a.term, a.has = term, 0
	}
	a.has = max(a.has, index)
	if n.acked.folders == nil {
		n.acked.folders = map[string]ack{}
	}
	n.acked.folders[key] = a
}

// noteHeard hears that a member has answered this leader.
func (n *Node) noteHeard(id raft.ServerID) {
	n.acked.mu.Lock()
	defer n.acked.mu.Unlock()
	if n.acked.heard == nil {
		n.acked.heard = map[raft.ServerID]time.Duration{}
	}
	n.acked.heard[id] = n.clock.Monotonic()
}

// silent is how long a member has not answered this leader, or since this node was opened.
func (n *Node) silent(id raft.ServerID) time.Duration {
	n.acked.mu.Lock()
	defer n.acked.mu.Unlock()
	last, ok := n.acked.heard[id]
	if !ok {
		last = n.openedAt
	}
	return n.clock.Monotonic() - last
}

// owned is the index up to which a member must have the log.
func (n *Node) owned(who identity) uint64 {
	n.acked.mu.Lock()
	defer n.acked.mu.Unlock()
	key := folderKey(who.ID, who.Incarnation)
	a, ok := n.acked.folders[key]
	if !ok {
		return 0
	}
	// What is applied is of this leader's log as long as its term lasts.
	if applied := n.appliedNow.Load(); n.raft.CurrentTerm() == a.term {
		a.sure = max(a.sure, min(a.has, applied))
		n.acked.folders[key] = a
	}
	return a.sure
}

// errLostLog ends a call to a member that has lost entries.
var errLostLog = errors.New("the member has lost entries that it had confirmed")

// condemnLost refuses a member for ever whose log ends before what it had confirmed.
func (n *Node) condemnLost(who identity, last, owned uint64) {
	why := fmt.Sprintf("node %s %s: its log ends with entry %d, and it had confirmed entry %d; remove it with LOCKD REMOVE %s and add it under a new id with an empty data folder", who.ID, saysLost, last, owned, who.ID)
	n.log.Error("a member is refused from now on", "member", who.ID, "why", why)
	if err := n.book.condemn(who, why); err != nil {
		n.log.Warn("this will not be remembered after a restart", "why", err)
	}
	n.peers.disconnect(who.ID)
}

// appliedMark remembers over restarts how far this node has applied the log: what is before it
// is committed. It is written without a sync, so after a crash of the machine it may lag behind;
// it is never ahead of the log, which is on the disk before it is applied.
type appliedMark struct {
	f     *os.File
	begin uint64 // as it was at the start
}

const appliedFile = "applied"

func openApplied(d *dataDir) (*appliedMark, error) {
	f, err := os.OpenFile(filepath.Join(d.path, appliedFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data folder %s: %w", d.path, err)
	}
	m := &appliedMark{f: f}
	var text [markLen]byte
	if _, err := f.ReadAt(text[:], 0); err == nil {
		if index := binary.BigEndian.Uint64(text[:]); bytes.Equal(encodeMark(index), text[:]) {
			m.begin = index
		}
	}
	return m, nil
}

// note writes down an index. If that fails the older one is there, and promises less.
func (m *appliedMark) note(index uint64) {
	if m != nil && index > m.begin {
		_, _ = m.f.WriteAt(encodeMark(index), 0)
	}
}

func (m *appliedMark) close() error {
	if m == nil {
		return nil
	}
	return m.f.Close()
}

// contradiction says that a leader has another log than what this node has applied, which
// cannot be while every node keeps its promises. nil: it has not.
func (n *Node) contradiction(term uint64, entries ...*raft.Log) error {
	if !n.started.Load() || term < n.raft.CurrentTerm() {
		return nil
	}
	applied := n.appliedNow.Load()
	if n.mark != nil {
		applied = max(applied, n.mark.begin)
	}
	for _, e := range entries {
		var own raft.Log
		if e.Index == 0 || e.Index > applied || n.stores.Log.GetLog(e.Index, &own) != nil || own.Term == e.Term {
			continue
		}
		return fmt.Errorf("this node has applied entry %d of term %d, the leader of term %d has another one of term %d in its place: the others have lost what was acknowledged, or this node has; it stops and changes nothing. Nodes that run on older copies of their data folders do this: remove those, and add them with empty folders", e.Index, own.Term, term, e.Term)
	}
	return nil
}
