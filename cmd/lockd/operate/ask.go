package operate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"lockd/cmd/lockd/show"
	"lockd/internal/client"
	"lockd/internal/locks"
	"lockd/resp"
)

// Fields are the fields of a section of INFO, in order.
type Fields []resp.Field

// Value returns the value of a field, "" if absent.
func (f Fields) Value(name string) string {
	for _, field := range f {
		if field.Name == name {
			return field.Value
		}
	}
	return ""
}

// InfoOf asks a node for a section of INFO; said explains its absence.
func InfoOf(ctx context.Context, node *client.Cluster, section string) (fields Fields, said string) {
	r, err := node.DoIdempotent(ctx, "INFO", section)
	switch {
	case err != nil:
		return nil, fmt.Sprintf("%s does not answer: %v", node.Addr(), err)
	case r.IsErr():
		return nil, node.Addr() + " refuses: " + r.Str
	}
	for line := range strings.SplitSeq(r.Str, "\n") {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields = append(fields, resp.Field{Name: name, Value: value})
	}
	return fields, ""
}

// Refused is an error that a server has answered.
func Refused(text string) error { return errors.New("the server refuses: " + show.Escape(text)) }

var errMembersAnswer = errors.New("the answer to LOCKD MEMBERS is not as expected: is it a node of lockd?")

// The words of LOCKD MEMBERS that count.
const (
	RoleLeader    = "leader"
	SuffrageVoter = "voter"
	StateUp       = "up"
)

// ReadMembers reads what LOCKD MEMBERS has answered.
func ReadMembers(r resp.Reply) ([]locks.Member, error) {
	members, err := locks.ParseMembers(r)
	if r.Kind != resp.KindArray || err != nil {
		return nil, errMembersAnswer
	}
	return members, nil
}
