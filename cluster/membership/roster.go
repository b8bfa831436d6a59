package membership

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

// Member holds what the cluster remembers about one of its nodes.
type Member struct {
	ID          string
	Incarnation string // drawn when its data folder was made: a different one means that its data was lost
	PeerAddr    string
	ClientAddrs []string
	Arch        string
	Number      int // in the ids of its clients, from 1 to NumberMax; 0: not known, as in a member's own account
}

// NumberMax bounds the numbers of members. They are given in turn, so a number is reused only after NumberMax members.
const NumberMax = 1<<10 - 1

// Equal reports whether two accounts of a member agree, except on its number: a member learns its number from the
// roster.
func (m Member) Equal(o Member) bool {
	return m.ID == o.ID && m.Incarnation == o.Incarnation && m.PeerAddr == o.PeerAddr &&
		m.Arch == o.Arch && slices.Equal(m.ClientAddrs, o.ClientAddrs)
}

// ClientAddr returns the member's first client address; "" while it is not known.
func (m Member) ClientAddr() string {
	if len(m.ClientAddrs) == 0 {
		return ""
	}
	return m.ClientAddrs[0]
}

// SentinelScheme marks the client address of the member's sentinel. A marked address needs no field of its own.
const SentinelScheme = "sentinel://"

// TLSScheme marks the client address for TLS. A member without another address has it as its first client address, too.
const TLSScheme = "tls://"

// TLSAddr returns the client address for TLS; "": there is none.
func (m Member) TLSAddr() string { return m.marked(TLSScheme) }

// SentinelAddr returns the address of the member's sentinel; "": there is none.
func (m Member) SentinelAddr() string { return m.marked(SentinelScheme) }

func (m Member) marked(scheme string) string {
	for _, addr := range m.ClientAddrs {
		if at, ok := strings.CutPrefix(addr, scheme); ok {
			return at
		}
	}
	return ""
}

// MemberFrom returns the member that an identity describes, without a number.
func MemberFrom(who peer.Identity) Member {
	return Member{
		ID:          who.ID,
		Incarnation: who.Incarnation,
		PeerAddr:    who.PeerAddr,
		ClientAddrs: who.ClientAddrs,
		Arch:        who.Arch,
	}
}

// Roster is cluster's own part of the replicated state: the id of the cluster, its members, and the removed nodes,
// which never return. A Roster is immutable; the goroutine that applies the log replaces it as a whole.
type Roster struct {
	Cluster string            // drawn by the first leader; "" before its first entry
	Members map[string]Member // by id
	Removed map[string]bool   // ids of removed nodes: never used again
	Level   int               // in force
	Last    int               // number given to the latest new member; 0: none
}

// LevelFirst is the level of a cluster before the first entry that sets one.
const LevelFirst = 1

// Change is one change of the roster, as an entry of the log carries it. Applying it twice has the effect of applying
// it once.
type Change struct {
	Cluster string   // id of the cluster, unless the roster has one
	Upsert  []Member // members to add or replace, unless removed
	Remove  []string // ids to remove for ever
	Level   int      // level in force from now on, if it is higher; 0: none
}

// Empty is the roster before the first entry.
var Empty = &Roster{Members: map[string]Member{}, Removed: map[string]bool{}, Level: LevelFirst}

// With returns the roster after a change.
func (r *Roster) With(c Change) *Roster {
	next := &Roster{
		Cluster: r.Cluster, Members: maps.Clone(r.Members), Removed: maps.Clone(r.Removed), Level: max(r.Level, c.Level),
		Last: r.Last,
	}
	if next.Cluster == "" {
		next.Cluster = c.Cluster
	}
	for _, m := range c.Upsert {
		known, ok := next.Members[m.ID]
		if next.Removed[m.ID] || ok && known.Incarnation != m.Incarnation {
			continue // an earlier entry has made the change obsolete
		}
		if m.Number = known.Number; !ok {
			m.Number = next.number()
		}
		next.Members[m.ID] = m
	}
	for _, id := range c.Remove {
		delete(next.Members, id)
		next.Removed[id] = true
	}
	return next
}

// number returns the next free number for a new member; 0 if all are taken.
func (r *Roster) number() int {
	taken := map[int]bool{}
	for _, m := range r.Members {
		taken[m.Number] = true
	}
	for range NumberMax {
		r.Last = r.Last%NumberMax + 1
		if !taken[r.Last] {
			return r.Last
		}
	}
	return 0
}

// Numbered returns the id of the member with a number, or "".
func (r *Roster) Numbered(number int) string {
	for id, m := range r.Members {
		if number > 0 && m.Number == number {
			return id
		}
	}
	return ""
}

// Check returns an error that says why a node may not take part in the cluster, for its operator; nil: it may.
func (r *Roster) Check(who peer.Identity, arch string) error {
	switch {
	case r.Removed[who.ID]:
		return WasRemoved(who.ID)
	case who.Arch != arch:
		return fmt.Errorf("node %s runs on %s, here it is %s: nodes of one cluster share an architecture, so that "+
			"they compute floating-point numbers alike",
			who.ID, who.Arch, arch)
	}
	if known, ok := r.Members[who.ID]; ok && known.Incarnation != who.Incarnation {
		return peer.Because(peer.Wiped, fmt.Errorf("node %s has lost its data: what it had promised is forgotten, so it must "+
			"not vote again; remove it with LOCKD REMOVE %s and add it under a new id with an empty data folder",
			who.ID, who.ID))
	}
	return nil
}

// WasRemoved returns why a node that was removed may not take part.
func WasRemoved(id string) error {
	return peer.Because(peer.Removed, fmt.Errorf("node %s was removed from this cluster: give it a new id and an "+
		"empty data folder", id))
}

// Words of refusals that more than one place says.
const (
	SaysCopied = "runs on a copy of its data folder"
	SaysLost   = "has lost what it had confirmed"
)

// IsFinal reports whether a refusal for a reason never ends, so that the node must stop.
func IsFinal(why peer.Reason) bool {
	switch why {
	case peer.Removed, peer.Wiped, peer.Copied, peer.Lost, peer.Outdated:
		return true
	}
	return false
}

// The binary forms, for snapshots and entries of the log:
//
//	roster  parts cluster n { member } n { removed id } [level] last number
//	change  parts cluster n { member } n { removed id } [level]
//	member  parts id incarnation peer-address n { client address } arch [number]
//
// Numbers are uvarints, all else but parts is a text behind its length. What stands in brackets is there if parts, a
// uvarint, has its bit. A reader that does not know a bit refuses the record.
const (
	partLevel  = 1 // of a roster or a change
	partNumber = 1 // of a member
)

// Append appends the roster, sorted, so that equal rosters have equal bytes.
func (r *Roster) Append(dst []byte) []byte {
	members := make([]Member, 0, len(r.Members))
	for _, id := range slices.Sorted(maps.Keys(r.Members)) {
		members = append(members, r.Members[id])
	}
	level := r.Level
	if level == LevelFirst {
		level = 0
	}
	dst = appendChange(dst, r.Cluster, members, slices.Sorted(maps.Keys(r.Removed)), level)
	return binary.AppendUvarint(dst, uint64(r.Last))
}

// ReadRoster reads a roster as Append writes it.
func ReadRoster(d *resp.Decoder) *Roster {
	f := fields{d}
	c := f.change("the roster")
	r := &Roster{Cluster: c.Cluster, Members: map[string]Member{}, Removed: map[string]bool{}, Level: max(c.Level, LevelFirst)}
	for _, m := range c.Upsert {
		r.Members[m.ID] = m
	}
	for _, id := range c.Remove {
		r.Removed[id] = true
	}
	r.Last = f.number()
	return r
}

// level reads a level above the first.
func (f fields) level() int {
	level := f.Uvarint()
	if level <= LevelFirst || level > peer.LevelMax {
		f.Fail("bad level")
	}
	return int(level)
}

// number reads the number of a member.
func (f fields) number() int {
	n := f.Uvarint()
	if n > NumberMax {
		f.Fail("bad number of a member")
		return 0
	}
	return int(n)
}

// AppendChange appends a change as ReadChange reads it.
func AppendChange(dst []byte, c Change) []byte {
	return appendChange(dst, c.Cluster, c.Upsert, c.Remove, c.Level)
}

func appendChange(dst []byte, cluster string, members []Member, removed []string, level int) []byte {
	parts := uint64(0)
	if level > 0 {
		parts = partLevel
	}
	dst = resp.AppendText(binary.AppendUvarint(dst, parts), cluster)
	dst = binary.AppendUvarint(dst, uint64(len(members)))
	for _, m := range members {
		dst = appendMember(dst, m)
	}
	dst = appendTexts(dst, removed)
	if level > 0 {
		dst = binary.AppendUvarint(dst, uint64(level))
	}
	return dst
}

// ReadChange reads a change from an entry.
func ReadChange(d *resp.Decoder) Change { return fields{d}.change("a change of the members") }

func (f fields) change(record string) Change {
	parts := f.Parts(record, partLevel)
	c := Change{Cluster: f.name()}
	for range f.Count(memberMin) {
		f.Item(memberMin)
		c.Upsert = append(c.Upsert, f.member())
	}
	c.Remove = f.names()
	if parts&partLevel != 0 {
		c.Level = f.level()
	}
	return c
}

// memberMin is the least that a member takes, in bytes: each part that is always there takes one.
const memberMin = 6

func appendMember(dst []byte, m Member) []byte {
	parts := uint64(0)
	if m.Number > 0 {
		parts = partNumber
	}
	dst = resp.AppendText(binary.AppendUvarint(dst, parts), m.ID)
	dst = resp.AppendText(dst, m.Incarnation)
	dst = resp.AppendText(dst, m.PeerAddr)
	dst = appendTexts(dst, m.ClientAddrs)
	dst = resp.AppendText(dst, m.Arch)
	if m.Number > 0 {
		dst = binary.AppendUvarint(dst, uint64(m.Number))
	}
	return dst
}

func (f fields) member() Member {
	parts := f.Parts("a member", partNumber)
	m := Member{ID: f.name(), Incarnation: f.name(), PeerAddr: f.name(), ClientAddrs: f.names(), Arch: f.name()}
	if parts&partNumber != 0 {
		m.Number = f.number()
	}
	return m
}

// ReplicationID is 40 hex digits that all nodes of a cluster share, as Redis's
// replication id.
func (r *Roster) ReplicationID() string {
	sum := sha1.Sum([]byte(r.Cluster))
	return hex.EncodeToString(sum[:])
}

// fields reads what a roster is made of.
type fields struct{ *resp.Decoder }

// name reads a text and copies it: what roster keeps must not hold an entry.
func (f fields) name() string { return strings.Clone(f.Text()) }

func (f fields) names() []string {
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
