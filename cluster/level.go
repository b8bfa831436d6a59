package cluster

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"lockd/cluster/membership"
	"lockd/cluster/peer"
	"lockd/cluster/record"
	"lockd/resp"
)

// The level in force rises by one when every member can do the next one: DESIGN.md, "Levels".

// whyNot names the members that keep a level from being in force, in words that follow a colon.
func (m *members) whyNot(level int) string {
	if why := m.notReadyFor(level); why != "" {
		return why
	}
	return "a member is away, or it is about to rise"
}

// notReadyFor names a member that is not known to support a level with the same rules as this node, and says why; "":
// every member is ready.
func (m *members) notReadyFor(level int) string {
	if level > m.highest {
		return fmt.Sprintf("node %s can do %s", m.cfg.ID, membership.SayLevels(m.lowest, m.highest))
	}
	for _, s := range m.raft.StartedServers() {
		id := string(s.ID)
		if id == m.cfg.ID {
			continue
		}
		who, common := m.levelsOf(id)
		switch {
		case who.ID == "":
			return fmt.Sprintf("node %s has not said which levels it can do", id)
		case who.Highest < level:
			return fmt.Sprintf("node %s can do %s", id, membership.SayLevels(
				max(who.Lowest, membership.LevelFirst), max(who.Highest, membership.LevelFirst)))
		case common < level:
			return fmt.Sprintf("node %s has other rules for level %d", id, level)
		}
	}
	return ""
}

// levelsOf returns the identity of a peer, and the highest level up to which it has the rules of this node.
func (m *members) levelsOf(id string) (who peer.Identity, common int) {
	m.metMu.Lock()
	defer m.metMu.Unlock()
	return m.met[id], m.compatibleLevel[id]
}

// mayRaise reports why a level cannot be in force yet: every member must say now that it can. One that is away may come
// back as it was.
func (m *members) mayRaise(ctx context.Context, level int) error {
	if why := cmp.Or(absent(m.survey(ctx)), m.notReadyFor(level)); why != "" {
		return errors.New(why)
	}
	return nil
}

// absent names a member that does not answer; "": there is none.
func absent(list []surveyed) string {
	for _, s := range list {
		if s.err != nil {
			return fmt.Sprintf("node %s does not answer: start it, or remove it with LOCKD REMOVE %s", s.ID, s.ID)
		}
	}
	return ""
}

// levelsReply returns the levels as LOCKD LEVEL shows them: the one in force, why it does not rise, and the levels of
// each member.
func levelsReply(ctx context.Context, m *members) resp.Reply {
	level, waits, list := m.level(), "", m.survey(ctx)
	if level < m.highest {
		waits = cmp.Or(absent(list), m.notReadyFor(level+1))
	}
	var members []resp.Reply
	for _, s := range list {
		who, _ := m.identityOf(string(s.ID))
		state := "up"
		if s.err != nil {
			state = "down"
		}
		members = append(members, resp.Map(
			resp.Bulk("id"), resp.Bulk(string(s.ID)),
			resp.Bulk("lowest"), resp.Int(int64(who.Lowest)),
			resp.Bulk("highest"), resp.Int(int64(who.Highest)),
			resp.Bulk("state"), resp.Bulk(state),
		))
	}
	return resp.Map(
		resp.Bulk("level"), resp.Int(int64(level)),
		resp.Bulk("waits"), resp.Bulk(waits),
		resp.Bulk("members"), resp.Array(members...),
	)
}

// formatsSince lists versions of what this package writes. A new version is a new line, with its level and a name of
// one word.
var formatsSince = []resp.Rule{
	{Level: 1, Name: "entry", Version: 1},
	{Level: 1, Name: "snapshot", Version: 1},
	{Level: 1, Name: "query", Version: 1},
}

// Versions says which formats this lockd writes with a machine, which protocol its nodes speak, and what
// its rules are: nodes with the same fingerprint let each other in.
func Versions(m Machine) []resp.Field {
	list := []resp.Field{
		{Name: "peer protocol", Value: strconv.Itoa(peer.Version)},
		{Name: "log entry", Value: strconv.Itoa(record.Version)},
		{Name: "snapshot", Value: strconv.Itoa(record.ImageVersion)},
	}
	lowest, highest := m.Levels()
	formats := m.Formats(highest)
	for _, name := range slices.Sorted(maps.Keys(formats)) {
		list = append(list, resp.Field{Name: name, Value: strconv.FormatUint(formats[name], 10)})
	}
	sum := sha256.Sum256([]byte(membership.Rules(m, formatsSince)))
	return append(
		list,
		resp.Field{Name: "levels", Value: membership.SayLevels(lowest, highest)},
		resp.Field{Name: "rules", Value: hex.EncodeToString(sum[:fingerprintBytes])},
		resp.Field{Name: "architecture", Value: membership.OwnArch},
	)
}

// fingerprintBytes is the part that is shown of a sum of all rules: enough for people to compare two.
const fingerprintBytes = 8
