package join

import (
	"testing"

	"lockd/resp"
)

// A joining node gives up only if asking again would change nothing: the loss of the leader during the change is no
// such refusal.
func TestAsksAgain(t *testing.T) {
	for answer, final := range map[string]bool{
		"-" + CodeInDoubt + " look at LOCKD MEMBERS: leadership lost": false,
		"-" + resp.ErrNotDone:                                            false,
		"-" + resp.ErrUnknown:                                            false,
		"-" + CodeCatchingUp + " node n4 is a member now":                false,
		"-ERR 'is a member now' is not an id":                            true,
		"-ERR node n4 is a member already, at n4:1":                      true,
		"-ERR node n4 was removed from this cluster: give it a new id":   true,
		"-NOAUTH Authentication required.":                               true,
		"-WRONGPASS invalid username-password pair or user is disabled.": true,
	} {
		if got := refusesForGood(answer); got != final {
			t.Errorf("%s: for good %v, want %v", answer, got, final)
		}
	}
}
