package membership

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"lockd/cluster/peer"
	"lockd/cluster/store"
)

// A data folder restored from a copy (a backup, a virtual machine's snapshot) has forgotten the votes of its node since
// then. The node could vote against them, and a majority of such nodes grants a lock twice. No majority can detect
// that, but any node that has met the node since can. So a folder counts its starts and draws a token for each; both
// are on the disk before anything else happens. Other nodes store the last start of each node that they meet, before
// they speak to it. A node whose own history lacks that start runs on an older copy.

// seenMax bounds the remembered data folders of nodes that Keep does not protect.
const seenMax = 1024

// The tokens of a folder must fit into the hello.
const _ = uint(peer.TokensMax - store.TokensMax)

// historyOf returns the history of starts in an identity.
func historyOf(who peer.Identity) store.History {
	return store.History{Starts: who.Starts, Tokens: who.Tokens}
}

// SeenStore keeps the starts of other nodes on the disk, as a store.Folder does.
type SeenStore interface {
	LastSeen() ([]store.LastSeen, error)
	// SaveLastSeen replaces them. They are on the disk when it returns nil. One call at a time.
	SaveLastSeen([]store.LastSeen) error
}

// StartLog stores the starts of the other nodes that this node has met. Its methods may be called concurrently, except
// Open.
type StartLog struct {
	disk SeenStore            // nil: they are not kept
	Keep func(id string) bool // reports whether a node must not be forgotten, however many others come

	saving sync.Mutex // one change at a time
	mu     sync.Mutex
	seen   map[string]store.LastSeen // by FolderKey; replaced as a whole
}

// FolderKey names a data folder.
func FolderKey(id, incarnation string) string { return id + " " + incarnation }

// Open reads the starts from a disk.
func (l *StartLog) Open(d SeenStore) error {
	l.disk = d
	list, err := d.LastSeen()
	if err != nil || len(list) == 0 {
		return err
	}
	l.seen = map[string]store.LastSeen{}
	for _, s := range list {
		l.seen[FolderKey(s.ID, s.Incarnation)] = s
	}
	return nil
}

// save stores a new log of starts on the disk, and then puts it into use.
func (l *StartLog) save(seen map[string]store.LastSeen) error {
	if l.disk != nil {
		if err := l.disk.SaveLastSeen(slices.Collect(maps.Values(seen))); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = seen
	return nil
}

func (l *StartLog) last(who peer.Identity) store.LastSeen {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen[FolderKey(who.ID, who.Incarnation)]
}

// Register returns an error for a node that runs on a copy of its folder. It stores the start of any other node, before
// this node speaks to it.
func (l *StartLog) Register(who peer.Identity) error {
	news, err := checkStart(who, l.last(who))
	if err != nil || !news {
		return err
	}
	l.saving.Lock()
	defer l.saving.Unlock()
	last := l.last(who) // it may have been met on another connection
	if news, err = checkStart(who, last); err != nil || !news {
		return err
	}
	last.ID, last.Incarnation, last.Start = who.ID, who.Incarnation, who.Starts
	last.Token, _ = historyOf(who).Token(who.Starts)
	return l.record(last)
}

// IsNew reports whether this start of a node is new.
func (l *StartLog) IsNew(who peer.Identity) bool {
	news, err := checkStart(who, l.last(who))
	return news && err == nil
}

// record stores the start of one folder. saving is held.
func (l *StartLog) record(s store.LastSeen) error {
	l.mu.Lock()
	next := map[string]store.LastSeen{}
	maps.Copy(next, l.seen)
	l.mu.Unlock()
	for key, old := range next {
		if len(next) >= seenMax && !l.Keep(old.ID) {
			delete(next, key)
		}
	}
	next[FolderKey(s.ID, s.Incarnation)] = s
	if err := l.save(next); err != nil {
		return fmt.Errorf("node %s is not spoken to before it is on the disk that it was met: %w", s.ID, err)
	}
	return nil
}

// checkStart compares a node's history with the last start of it that this node has seen. news: the present start is
// later.
func checkStart(who peer.Identity, last store.LastSeen) (news bool, err error) {
	token, known := historyOf(who).Token(last.Start)
	switch {
	case last.Lost != "":
		return false, peer.Because(peer.Lost, errors.New(last.Lost))
	case who.Starts < last.Start, known && token != last.Token:
		return false, peer.Because(peer.Copied, fmt.Errorf("node %s %s, made before its start %d that was seen here: what "+
			"it has promised since is forgotten, so it must not vote again; remove it with LOCKD REMOVE %s and add it under "+
			"a new id with an empty data folder",
			who.ID, SaysCopied, last.Start, who.ID))
	}
	return who.Starts > last.Start, nil
}

// BanReason returns the reason why a folder is refused, also this node's own; "": it is not.
func (l *StartLog) BanReason(id, incarnation string) string {
	return l.last(peer.Identity{ID: id, Incarnation: incarnation}).Lost
}

// Ban makes this node refuse a folder from now on, for a reason.
func (l *StartLog) Ban(who peer.Identity, why string) error {
	l.saving.Lock()
	defer l.saving.Unlock()
	last := l.last(who)
	last.ID, last.Incarnation, last.Lost = who.ID, who.Incarnation, why
	return l.record(last)
}
