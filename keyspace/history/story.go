package history

import (
	"strconv"
	"strings"

	"lockd/keyspace/arg"
	"lockd/resp"
)

// Story gathers what happened to the lock of a token: its last grant, its last wait or loss, and the next holder.
type Story struct {
	grant, end, next *Event
}

// Follow adds the next event of the key.
func (s *Story) Follow(e *Event, token string) {
	switch fits := FitsToken(e.Token, token); {
	case e.Kind.EndsAll():
		if s.grant != nil && s.end == nil {
			s.end = e.Copy()
		}
	case fits && e.Kind == Granted:
		*s = Story{grant: e.Copy()}
	case fits && e.Kind.Ends():
		s.end, s.next = e.Copy(), nil
	case fits:
		*s = Story{end: e.Copy()}
	case e.Kind == Granted && s.end != nil && s.next == nil:
		s.next = e.Copy()
	}
}

// Say tells what happened to the lock of a token, or to its wait.
func (s *Story) Say(key, token string, whole bool, sinceMs int64) string {
	if s.end == nil && s.grant == nil {
		return resp.NothingKnown + ShownToken(token, whole) + " and " + key + ": what is known begins at " +
			arg.FormatTime(sinceMs) + "."
	}
	var said strings.Builder
	if g := s.grant; g != nil {
		said.WriteString(ShownToken(g.Token, whole) + " got " + key + " at " + arg.FormatTime(g.WallMs) +
			" (fence " + itoa(int64(g.Fence)) + ")")
		if g.WaitedMs > 0 {
			said.WriteString(" after waiting " + itoa(g.WaitedMs) + " ms")
		}
	} else if s.end.Kind.Ends() {
		said.WriteString(ShownToken(s.end.Token, whole) + " had " + key + " (fence " + itoa(int64(s.end.Fence)) + ")")
	} else {
		said.WriteString(ShownToken(s.end.Token, whole) + " waited " + itoa(s.end.WaitedMs) + " ms for " + key)
	}
	if s.end != nil {
		said.WriteString(describeEnd(s.end))
		if s.next != nil {
			said.WriteString(" Next was " + ShownToken(s.next.Token, whole) + " at " + arg.FormatTime(s.next.WallMs) +
				" (fence " + itoa(int64(s.next.Fence)) + ").")
		} else if s.end.Kind.Ends() {
			said.WriteString(" Nobody has got it since.")
		}
		return said.String()
	}
	return said.String() + "."
}

// SayRenewals says how often a lease was renewed.
func SayRenewals(renewals uint64, lastMs int64) string {
	switch {
	case renewals == 0:
		return "never renewed"
	case renewals == 1 && lastMs != 0:
		return "renewed once, at " + arg.FormatTime(lastMs)
	case lastMs == 0:
		return "renewed " + itoa(int64(renewals)) + " times"
	}
	return "renewed " + itoa(int64(renewals)) + " times, last at " + arg.FormatTime(lastMs)
}

// describeEnd tells how a lock, or a wait, ended.
func describeEnd(e *Event) string {
	at := " at " + arg.FormatTime(e.WallMs)
	who := e.Command() + describeClient(e.Client)
	held := ", after " + itoa(e.HeldMs) + " ms, " + SayRenewals(e.Renewals, e.RenewedMs) + "."
	switch e.Kind {
	case Released:
		return " and released it" + at + " by " + who + held
	case Expired:
		return " and lost it" + at + ": its lease of " + itoa(e.LeaseMs) + " ms was over" + held
	case Deleted:
		return " and lost it" + at + ": deleted by " + who + held
	case Overwritten:
		return " and lost it" + at + ": overwritten by " + who + held
	case Forced:
		return " and lost it" + at + ": ended by " + who + ", because: " + e.Reason + held
	case Moved:
		return " and lost it" + at + ": the key was given another name by " + who + held
	case Flushed:
		return " and lost it" + at + ": all keys were deleted by " + who + "."
	case Swapped:
		return " and lost it" + at + ": its database was exchanged with " + itoa(int64(e.OtherDB)) + " by " + who + "."
	case GaveUp:
		return " in vain: its time was over" + at + "."
	case Left:
		return " in vain: UNLOCK ended the wait" + at + "."
	case Replaced:
		return " on one connection; another one took its place" + at + "."
	case Refused:
		return " in vain: the answer" + at + " was " + e.Reason + "."
	}
	return " in vain: its client, or its node, was gone" + at + "."
}

// describeClient names the sender of a command as far as it is known.
func describeClient(s resp.Sender) string {
	if s == "" {
		return ""
	}
	c := s.Client()
	said := " of client " + itoa(int64(c.ID))
	if c.Name != "" {
		said += " (" + c.Name + ")"
	}
	return said + " from " + c.Addr + " at node " + c.Node
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
