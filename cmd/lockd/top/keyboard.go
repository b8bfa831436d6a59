package top

import (
	"fmt"
	"slices"
	"unicode"

	"lockd/cmd/lockd/show"
	"lockd/internal/locks"
)

// Key is a key that was pressed: a character, or one that has none.
type Key struct {
	Rune    rune
	Special Special
	Pasted  bool // it was not pressed: it may be a letter of a prompt, and nothing else
}

// Special is a key without a character.
type Special uint8

// The keys without a character that do something.
const (
	NoSpecial Special = iota
	Up
	Down
	PageUp
	PageDown
	Home
	End
	Enter
	Escape
	Backspace
	Interrupt // Ctrl-C
)

// Do is the action that a key asks of the caller; the model has done its own part already.
type Do struct {
	Quit    bool
	Refresh bool   // at once
	Force   *Force // to be sent
}

// Force is a LOCKS FORCE that somebody has said yes to.
type Force struct {
	Key    string
	Fence  int64  // of the holder, or the newest of several: the lock is theirs as long as it has that
	Token  string // "": all holders
	Reason string
}

// Press does what a key is for.
func (m *Model) Press(k Key) Do {
	if k.Special == Interrupt && !k.Pasted {
		return Do{Quit: true}
	}
	if k.Pasted && (k.Rune == 0 || m.prompt != promptFilter && m.prompt != promptReason) {
		return Do{}
	}
	m.said = ""
	switch m.prompt {
	case promptFilter, promptReason:
		return m.typeKey(k)
	case promptSure:
		return m.sureKey(k)
	}
	switch {
	case k.Rune == 'q':
		return Do{Quit: true}
	case m.page == pageHelp:
		m.page, m.offset = m.under, 0
	case k.Rune == '?':
		m.under, m.page, m.offset = m.page, pageHelp, 0
	case k.Rune == 'x':
		m.aim()
	case m.page == pageLock:
		return m.lockKey(k)
	default:
		return m.listKey(k)
	}
	return Do{}
}

// steps returns how far a key moves the selection; ok is false for other keys.
func (m *Model) steps(k Key) (n int, ok bool) {
	const far = 1 << 30
	switch {
	case k.Special == Up || k.Rune == 'k':
		return -1, true
	case k.Special == Down || k.Rune == 'j':
		return 1, true
	case k.Special == PageUp:
		return -max(1, m.height-1), true
	case k.Special == PageDown:
		return max(1, m.height-1), true
	case k.Special == Home:
		return -far, true
	case k.Special == End:
		return far, true
	}
	return 0, false
}

func (m *Model) listKey(k Key) Do {
	if n, ok := m.steps(k); ok {
		m.mark(m.cursor + n)
		return Do{}
	}
	orders := map[rune]Order{'w': ByWaiters, 'h': ByHeld, 'c': ByChurn}
	order, sorts := orders[k.Rune]
	switch {
	case sorts:
		m.order = order
		m.arrange()
		m.mark(0)
		return Do{Refresh: true}
	case k.Rune == '/':
		m.prompt, m.typed = promptFilter, m.filter
	case k.Rune == ' ':
		return Do{Refresh: true}
	case k.Special == Escape && m.filter != "":
		m.filter = ""
		return Do{Refresh: true}
	case k.Special == Enter && m.marked != "":
		m.page, m.lock, m.offset, m.known = pageLock, m.marked, 0, false
		return Do{Refresh: true}
	}
	return Do{}
}

func (m *Model) lockKey(k Key) Do {
	if n, ok := m.steps(k); ok {
		m.offset = max(0, m.offset+n) // the view knows where the list ends
		return Do{}
	}
	switch {
	case k.Special == Escape || k.Special == Backspace:
		m.page, m.offset = pageList, 0
	case k.Rune == ' ':
		return Do{Refresh: true}
	}
	return Do{}
}

// typedMax bounds what is typed, in characters.
const typedMax = 512

// typeKey types into a prompt.
func (m *Model) typeKey(k Key) Do {
	switch {
	case k.Special == Escape:
		m.prompt = promptNone
	case k.Special == Backspace:
		if typed := []rune(m.typed); len(typed) > 0 {
			m.typed = string(typed[:len(typed)-1])
		}
	case k.Special == Enter && m.prompt == promptFilter:
		m.prompt, m.filter = promptNone, m.typed
		return Do{Refresh: true}
	case k.Special == Enter && m.typed == "":
		m.prompt, m.said = promptNone, "without a reason nothing is done"
	case k.Special == Enter:
		m.prompt, m.target.Reason = promptSure, m.typed
	case unicode.IsPrint(k.Rune) && len([]rune(m.typed)) < typedMax:
		m.typed += string(k.Rune)
	}
	return Do{}
}

// target is a force before its question was answered.
type target struct {
	Force
	who string
}

// String names what is to be forced, in so few characters that the question fits a line.
func (t *target) String() string {
	return fmt.Sprintf("%s from %s (fence %d)",
		show.CutMiddle(show.Escape(t.Key), 30), show.CutMiddle(t.who, 16), t.Fence)
}

// aim asks for confirmation to end a lock. It targets the one holder that is shown, so that the next holder does not
// lose the lock instead, or all holders if there are several.
func (m *Model) aim() {
	l := m.shown()
	switch {
	case l == nil || len(l.Holders) == 0:
		m.said = "there is no holder to take the lock from"
		return
	case m.forced:
		m.said = "the answer to the last force has not come yet"
		return
	}
	m.target = target{Force: Force{Key: l.Key, Fence: show.Fence(l)}, who: show.HolderName(l)}
	if len(l.Holders) == 1 {
		m.target.Token = l.Holders[0].Token
	}
	m.prompt, m.typed = promptReason, ""
}

// shown is the lock whose page is shown, or that is under the cursor, as it was seen last; nil: none.
func (m *Model) shown() *locks.Lock {
	switch {
	case m.page == pageLock && m.known && m.detail.Info != nil:
		return &m.detail.Info.Lock
	case m.page == pageList && m.cursor < len(m.rows):
		return &m.rows[m.cursor].lock
	}
	return nil
}

// sureKey takes the answer to the question: y, anything else is no.
func (m *Model) sureKey(k Key) Do {
	m.prompt = promptNone
	if k.Rune != 'y' && k.Rune != 'Y' {
		m.said = "nothing was done"
		return Do{}
	}
	if fence, ok := m.fenceNow(m.target.Key); ok && fence != m.target.Fence {
		m.said = show.Escape(m.target.Key) + " has another holder now: nothing was done"
		return Do{}
	}
	m.forced = true
	force := m.target.Force
	return Do{Force: &force}
}

// fenceNow is the fence of a lock as it was seen last.
func (m *Model) fenceNow(key string) (fence int64, ok bool) {
	if m.page == pageLock && m.known && m.detail.Info != nil && m.lock == key {
		return show.Fence(&m.detail.Info.Lock), true
	}
	at := slices.IndexFunc(m.rows, func(r row) bool { return r.lock.Key == key })
	if at < 0 {
		return 0, false
	}
	return show.Fence(&m.rows[at].lock), true
}

// Forced reports the result of a force: n holders lost the lock, or err tells why nothing was done or why the outcome
// is unknown.
func (m *Model) Forced(f Force, n int64, err error) {
	m.forced = false
	key := show.Escape(f.Key)
	switch {
	case err != nil:
		m.said = key + ": " + show.Escape(err.Error())
	case n == 0:
		m.said = key + " was held no more by whom it was to be taken from: nothing was done"
	case n == 1:
		m.said = key + " has been taken from its holder"
	default:
		m.said = fmt.Sprintf("%s has been taken from its %d holders", key, n)
	}
}
