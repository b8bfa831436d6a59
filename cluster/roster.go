package cluster

import (
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lockd/cluster/peer"
	"lockd/resp"
)

// member is what the cluster remembers about one of its nodes.
type member struct {
	ID          string
	Incarnation string // drawn when its data folder was made: another one means its data was lost
	PeerAddr    string
	ClientAddrs []string
	Arch        string
}

func (m member) equal(o member) bool {
	return m.ID == o.ID && m.Incarnation == o.Incarnation && m.PeerAddr == o.PeerAddr &&
		m.Arch == o.Arch && slices.Equal(m.ClientAddrs, o.ClientAddrs)
}

// clientAddr is where clients reach the member: its first client address, or ""
// while it is not known.
func (m member) clientAddr() string {
	if len(m.ClientAddrs) == 0 {
		return ""
	}
	return m.ClientAddrs[0]
}

// sentinelScheme marks a client address that is that of the member's sentinel. An
// address with a mark, and not a field of its own, is understood by every version.
const sentinelScheme = "sentinel://"

// tlsScheme marks, likewise, the address at which clients reach the member by TLS. A member that has no other
// has it as its first client address, too.
const tlsScheme = "tls://"

// tlsAddr is where clients reach the member by TLS, or "" if they do not.
func (m member) tlsAddr() string { return m.marked(tlsScheme) }

// sentinelAddr is where clients reach the member's sentinel, or "" if it has none.
func (m member) sentinelAddr() string { return m.marked(sentinelScheme) }

func (m member) marked(scheme string) string {
	for _, addr := range m.ClientAddrs {
		if at, ok := strings.CutPrefix(addr, scheme); ok {
			return at
		}
	}
	return ""
}

// memberFrom is a node's own word about itself as the cluster would remember it.
func memberFrom(who peer.Identity) member {
	return member{
		ID:          who.ID,
		Incarnation: who.Incarnation,
		PeerAddr:    who.PeerAddr,
		ClientAddrs: who.ClientAddrs,
		Arch:        who.Arch,
	}
}

// roster is the replicated part of the state that is cluster's own: which cluster
// this is, who its members are, and who must never come back. It does not change
// once it is made; the goroutine that applies the log replaces it as a whole.
type roster struct {
	cluster string            // drawn by the first leader; "" before its first entry
	members map[string]member // by id
	removed map[string]bool   // ids of removed nodes: never used again
	level   int               // in force
}

// levelFirst is the level of a cluster before any entry says one.
const levelFirst = 1

// rosterChange is one change of the roster, as an entry of the log carries it.
// Doing it twice changes nothing.
type rosterChange struct {
	cluster string   // taken if the roster has none
	upsert  []member // added or replaced, unless removed
	remove  []string // removed for ever
	level   int      // in force from now on, if it is higher; 0: none
}

var emptyRoster = &roster{members: map[string]member{}, removed: map[string]bool{}, level: levelFirst}

// with returns the roster after a change.
func (r *roster) with(c rosterChange) *roster {
	next := &roster{
		cluster: r.cluster, members: maps.Clone(r.members), removed: maps.Clone(r.removed), level: max(r.level, c.level),
	}
	if next.cluster == "" {
		next.cluster = c.cluster
	}
	for _, m := range c.upsert {
		known, ok := next.members[m.ID]
		if next.removed[m.ID] || ok && known.Incarnation != m.Incarnation {
			continue // a change that was proposed before the entry that makes it wrong
		}
		next.members[m.ID] = m
	}
	for _, id := range c.remove {
		delete(next.members, id)
		next.removed[id] = true
	}
	return next
}

// checkPeer reports why a node may not take part in the cluster. The error is the sentence that its
// operator reads.
func (r *roster) checkPeer(who peer.Identity, arch string) error {
	switch {
	case r.removed[who.ID]:
		return fmt.Errorf("node %s %s: give it a new id and an empty data folder", who.ID, saysRemoved)
	case who.Arch != arch:
		return fmt.Errorf("node %s runs on %s, here it is %s: nodes of one cluster share an architecture, so that "+
			"they compute floating-point numbers alike",
			who.ID, who.Arch, arch)
	}
	if known, ok := r.members[who.ID]; ok && known.Incarnation != who.Incarnation {
		return fmt.Errorf("node %s %s: what it had promised is forgotten, so it must not vote again; remove it with "+
			"LOCKD REMOVE %s and add it under a new id with an empty data folder",
			who.ID, saysWiped, who.ID)
	}
	return nil
}

// The words by which a refused node knows that the refusal is final.
const (
	saysRemoved = "was removed from this cluster"
	saysWiped   = "has lost its data"
	saysCopied  = "runs on a copy of its data folder"
	saysLost    = "has lost what it had confirmed"
	saysOld     = "is too old for this cluster"
	saysForeign = "belongs to another cluster" // final for a founder only
)

// saysUnsure marks a refusal that rests on entries of the log that may never be committed.
const saysUnsure = "as far as the log says, which may not be committed"

// isFinal reports whether a refusal can never end, so that the node must stop.
func isFinal(text string) bool {
	if strings.Contains(text, saysUnsure) {
		return false
	}
	return slices.ContainsFunc([]string{saysRemoved, saysWiped, saysCopied, saysLost, saysOld}, func(says string) bool {
		return strings.Contains(text, says)
	})
}

// append writes the roster, sorted, so that equal rosters have equal bytes.
func (r *roster) append(dst []byte) []byte {
	dst = resp.AppendText(dst, r.cluster)
	dst = binary.AppendUvarint(dst, uint64(len(r.members)))
	for _, id := range slices.Sorted(maps.Keys(r.members)) {
		dst = appendMember(dst, r.members[id])
	}
	dst = appendTexts(dst, slices.Sorted(maps.Keys(r.removed)))
	if r.level > levelFirst {
		dst = binary.AppendUvarint(dst, uint64(r.level))
	}
	return dst
}

// roster reads a roster from an image of a version: before version 2 it is of the first level.
func (f *fields) roster(version byte) *roster {
	r := &roster{cluster: f.name(), members: map[string]member{}, removed: map[string]bool{}, level: levelFirst}
	for range f.Count(1) {
		f.Item(1)
		m := f.member()
		r.members[m.ID] = m
	}
	for _, id := range f.names() {
		r.removed[id] = true
	}
	if version >= 2 {
		r.level = f.level()
	}
	return r
}

// level reads a level above the first one.
func (f *fields) level() int {
	level := f.Uvarint()
	if level <= levelFirst || level > peer.LevelMax {
		f.Fail("bad level")
	}
	return int(level)
}

func appendRosterChange(dst []byte, c rosterChange) []byte {
	dst = resp.AppendText(dst, c.cluster)
	dst = binary.AppendUvarint(dst, uint64(len(c.upsert)))
	for _, m := range c.upsert {
		dst = appendMember(dst, m)
	}
	dst = appendTexts(dst, c.remove)
	if c.level > 0 {
		dst = binary.AppendUvarint(dst, uint64(c.level))
	}
	return dst
}

// rosterChange reads a change from an entry of a version: from version 8 on it says a level.
func (f *fields) rosterChange(version byte) rosterChange {
	c := rosterChange{cluster: f.name()}
	for range f.Count(1) {
		f.Item(1)
		c.upsert = append(c.upsert, f.member())
	}
	c.remove = f.names()
	if version >= 8 {
		c.level = f.level()
	}
	return c
}

func appendMember(dst []byte, m member) []byte {
	dst = resp.AppendText(dst, m.ID)
	dst = resp.AppendText(dst, m.Incarnation)
	dst = resp.AppendText(dst, m.PeerAddr)
	dst = appendTexts(dst, m.ClientAddrs)
	return resp.AppendText(dst, m.Arch)
}

func (f *fields) member() member {
	return member{ID: f.name(), Incarnation: f.name(), PeerAddr: f.name(), ClientAddrs: f.names(), Arch: f.name()}
}

// replicationID is 40 hex digits that all nodes of a cluster share, as Redis's
// replication id.
func (r *roster) replicationID() string {
	sum := sha1.Sum([]byte(r.cluster))
	return hex.EncodeToString(sum[:])
}

// fields reads the forms of this package.
type fields struct{ resp.Decoder }

// name reads a text and copies it: what roster keeps must not hold an entry.
func (f *fields) name() string { return strings.Clone(f.Text()) }

func (f *fields) names() []string {
	n := f.Count(1)
	if n == 0 {
		return nil
	}
	items := make([]string, n)
	for i := range items {
		f.Item(1)
		items[i] = f.name()
	}
	return items
}

func appendTexts(dst []byte, items []string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(items)))
	for _, s := range items {
		dst = resp.AppendText(dst, s)
	}
	return dst
}
