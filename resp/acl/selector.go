package acl

import (
	"maps"
	"slices"
	"strings"

	"lockd/resp"
)

// selector is one set of rules. A call is allowed if at least one selector of the user allows all of it.
type selector struct {
	allCommands bool // skips the check of the bits
	future      bool // it began with +@all: commands that it does not name are allowed
	allKeys     bool
	allChannels bool

	allowed   []uint64 // by Command.id
	firstArgs map[int][]string
	rules     []string // about commands, since the last +@all or -@all, without those that a later rule replaced
	keys      []keyPattern
	channels  []string
}

type keyPattern struct {
	glob  string
	allow needs
}

// clone returns a copy that may be changed.
func (s *selector) clone() *selector {
	c := *s
	c.allowed, c.rules = slices.Clone(s.allowed), slices.Clone(s.rules)
	c.keys, c.channels = slices.Clone(s.keys), slices.Clone(s.channels)
	c.firstArgs = maps.Clone(s.firstArgs)
	return &c
}

// The errors of a rule, in Redis's words.
const (
	errUnknown    = resp.Error("Unknown command or category name in ACL")
	errRuleSyntax = resp.Error("Syntax error")
	errKeysAll    = resp.Error("Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not " +
		"have any effect. Try 'resetkeys' to start with an empty list of patterns")
	errChannelsAll = resp.Error("Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does " + "not have any effect. Try 'resetchannels' to start with an empty list of channels")
	errNoPassword  = resp.Error("The password you are trying to remove from the user does not exist")
	errHash        = resp.Error("The password hash must be exactly 64 characters and contain only lowercase " +
		"hexadecimal characters")
	errPatterns = resp.Error("There are too many patterns")
	errFirstArg = resp.Error("Allowing first-arg of a subcommand is not supported")
	errTooMuch  = "ERR the rules of a user take more than 64 KB, or are too many"
)

// apply changes the selector by one rule.
func (s *selector) apply(known *Commands, rule string) error {
	switch {
	case resp.Is(rule, "ALLKEYS") || rule == "~*":
		s.allKeys, s.keys = true, nil
	case resp.Is(rule, "RESETKEYS"):
		s.allKeys, s.keys = false, nil
	case resp.Is(rule, "ALLCHANNELS") || rule == "&*":
		s.allChannels, s.channels = true, nil
	case resp.Is(rule, "RESETCHANNELS"):
		s.allChannels, s.channels = false, nil
	case resp.Is(rule, "ALLCOMMANDS") || resp.Is(rule, "+@ALL"):
		s.setAll(known, true)
	case resp.Is(rule, "NOCOMMANDS") || resp.Is(rule, "-@ALL"):
		s.setAll(known, false)
	case rule[0] == '~' || rule[0] == '%':
		return s.addKeys(rule)
	case rule[0] == '&':
		return s.addChannels(rule[1:])
	case rule[0] == '+' || rule[0] == '-':
		return s.setCommand(known, rule)
	default:
		return errRuleSyntax
	}
	return nil
}

func (s *selector) setAll(known *Commands, allow bool) {
	s.allCommands, s.future, s.rules, s.firstArgs = allow, allow, nil, nil
	s.allowed = make([]uint64, (len(known.all)+63)/64)
	for i := range s.allowed {
		if allow {
			s.allowed[i] = ^uint64(0)
		}
	}
}

func (s *selector) addKeys(rule string) error {
	if s.allKeys {
		return errKeysAll
	}
	p := keyPattern{glob: rule[1:], allow: readsAndWrites}
	if rule[0] == '%' {
		letters, glob, ok := strings.Cut(rule[1:], "~")
		p = keyPattern{glob: glob}
		for _, letter := range strings.ToUpper(letters) {
			right := map[rune]needs{'R': reads, 'W': writes}[letter]
			if right == 0 || p.allow&right != 0 {
				return errRuleSyntax
			}
			p.allow |= right
		}
		if !ok || p.allow == 0 {
			return errRuleSyntax
		}
	}
	if hasSpaces(p.glob) {
		return errRuleSyntax
	}
	at := slices.IndexFunc(s.keys, func(k keyPattern) bool { return k.glob == p.glob })
	if at >= 0 {
		s.keys[at].allow |= p.allow
	} else if len(s.keys) >= patternsMax {
		return errPatterns
	} else {
		s.keys = append(s.keys, p)
	}
	return nil
}

func (s *selector) addChannels(glob string) error {
	switch {
	case s.allChannels:
		return errChannelsAll
	case hasSpaces(glob):
		return errRuleSyntax
	case slices.Contains(s.channels, glob):
	case len(s.channels) >= patternsMax:
		return errPatterns
	default:
		s.channels = append(s.channels, glob)
	}
	return nil
}

// setCommand applies +name, -name, +name|sub, +name|first-arg, +@category or -@category.
func (s *selector) setCommand(known *Commands, rule string) error {
	allow, name := rule[0] == '+', strings.ToLower(rule[1:])
	if hasSpaces(name) {
		return errRuleSyntax
	}
	if category, ok := strings.CutPrefix(name, "@"); ok {
		set := CategoryNamed(category)
		if set == 0 {
			return errUnknown
		}
		for _, cmd := range known.all {
			if cmd.Categories&set != 0 {
				s.setOne(cmd, allow)
			}
		}
		s.note(allow, name)
		return nil
	}
	cmd := known.lookup(name)
	if of, first, isSub := cutLast(name); allow && isSub {
		container := known.lookup(of)
		switch {
		case container == nil:
			return errUnknown
		case container.parent != nil:
			return errFirstArg
		case first == "":
			return errRuleSyntax
		case len(container.subs) == 0 && len(s.firstArgs[container.id]) >= patternsMax:
			return errPatterns
		case len(container.subs) == 0:
			s.addFirstArg(container, first)
			s.note(allow, name)
			return nil
		}
	}
	if cmd == nil {
		return errUnknown
	}
	s.setOne(cmd, allow)
	s.note(allow, name)
	return nil
}

// cutLast divides a name at its last bar.
func cutLast(name string) (before, after string, found bool) {
	at := strings.LastIndexByte(name, '|')
	if at < 0 {
		return name, "", false
	}
	return name[:at], name[at+1:], true
}

// setOne allows or denies a command together with its subcommands.
func (s *selector) setOne(cmd *Command, allow bool) {
	s.setBit(cmd, allow)
	delete(s.firstArgs, cmd.id)
	for _, sub := range cmd.subs {
		s.setBit(sub, allow)
	}
}

func (s *selector) setBit(cmd *Command, allow bool) {
	word, bit := cmd.id/64, uint64(1)<<(cmd.id%64)
	if allow {
		s.allowed[word] |= bit
	} else {
		s.allowed[word] &^= bit
		s.allCommands = false
	}
}

func (s *selector) addFirstArg(cmd *Command, first string) {
	if slices.Contains(s.firstArgs[cmd.id], first) {
		return
	}
	if s.firstArgs == nil {
		s.firstArgs = map[int][]string{}
	}
	s.firstArgs[cmd.id] = append(slices.Clone(s.firstArgs[cmd.id]), first)
}

// note appends a rule about commands and drops the former rules that it replaces: those of the same name, and of its
// subcommands and first arguments.
func (s *selector) note(allow bool, name string) {
	s.rules = slices.DeleteFunc(s.rules, func(rule string) bool {
		rest, same := strings.CutPrefix(rule[1:], name)
		return same && (rest == "" || rest[0] == '|')
	})
	sign := "-"
	if allow {
		sign = "+"
	}
	s.rules = append(s.rules, sign+name)
}

// Reason is the reason why a call is denied; Allowed if it is not.
type Reason uint8

// The reasons. If selectors deny a call for different reasons, the highest counts.
const (
	Allowed       Reason = iota
	DeniedCommand        // the user may not run it
	DeniedKey            // a key
	DeniedChannel        // a channel
)

// String returns the reason in the words of ACL LOG; "" for Allowed.
func (r Reason) String() string {
	switch r {
	case DeniedCommand:
		return "command"
	case DeniedKey:
		return "key"
	case DeniedChannel:
		return "channel"
	}
	return ""
}

// denial tells why a selector denies a call.
type denial struct {
	reason Reason
	place  int    // index of the key or channel among those of the call, from 1
	object string // the key or channel
}

// check returns why the selector denies a call, whose arity is right; its reason is Allowed if it does not.
func (s *selector) check(cmd *Command, args resp.Args, budget *int) denial {
	if !s.allCommands && cmd.Spec.Flags&resp.NoAuth == 0 && !s.runs(cmd, args) {
		return denial{reason: DeniedCommand}
	}
	if !s.allKeys && cmd.Spec.Keys != resp.NoKeys && cmd.channels == noChannels {
		if d := s.checkKeys(cmd, args, budget); d.reason != Allowed {
			return d
		}
	}
	if !s.allChannels && cmd.channels != noChannels && cmd.channels != leftChannels {
		return s.checkChannels(cmd, args, budget)
	}
	return denial{}
}

func (s *selector) runs(cmd *Command, args resp.Args) bool {
	if s.allowed[cmd.id/64]&(1<<(cmd.id%64)) != 0 {
		return true
	}
	list := s.firstArgs[cmd.id]
	return len(list) > 0 && len(args) > 1 &&
		slices.ContainsFunc(list, func(first string) bool { return resp.Is(first, args[1]) })
}

func (s *selector) checkKeys(cmd *Command, args resp.Args, budget *int) denial {
	var one [1]string
	keys := one[:]
	if cmd.Spec.Keys == resp.FirstKey {
		one[0] = args[1]
	} else {
		keys, _ = cmd.Spec.Keys.Of(args) // where they cannot be found, the command refuses the call
	}
	for i, key := range keys {
		if !s.hasKey(key, useOf(cmd.Spec, cmd.uses, i).needsIn(args), budget) {
			return denial{DeniedKey, i + 1, key}
		}
	}
	return denial{}
}

func (s *selector) hasKey(key string, need needs, budget *int) bool {
	if s.allKeys {
		return true
	}
	for _, p := range s.keys {
		if p.allow&need == need && matches(p.glob, key, budget) {
			return true
		}
	}
	return false
}

func (s *selector) checkChannels(cmd *Command, args resp.Args, budget *int) denial {
	names := args[1:]
	if cmd.channels == firstChannel {
		names = names[:1]
	}
	for i, name := range names {
		if !s.hasChannel(name, cmd.channels == patternsOfAll, budget) {
			return denial{DeniedChannel, i + 1, name}
		}
	}
	return denial{}
}

// hasChannel reports whether the selector allows a channel; a pattern must be among the rules literally.
func (s *selector) hasChannel(name string, pattern bool, budget *int) bool {
	if s.allChannels {
		return true
	}
	return slices.ContainsFunc(s.channels, func(glob string) bool {
		return pattern && glob == name || !pattern && matches(glob, name, budget)
	})
}

// matches reports whether glob matches; a match that exceeds the budget fails.
func matches(glob, name string, budget *int) bool { return resp.Glob(glob, name, budget) }

// hasSpaces reports whether s has spaces or a zero byte, which the text of rules cannot represent.
func hasSpaces(s string) bool { return strings.ContainsAny(s, " \t\n\v\f\r\x00") }

// commandRules returns the rules about commands as Redis shows them.
func (s *selector) commandRules() string {
	first := "-@all"
	if s.future {
		first = "+@all"
	}
	return strings.Join(append([]string{first}, s.rules...), " ")
}

// keyRules returns the patterns of keys as Redis shows them.
func (s *selector) keyRules() string {
	if s.allKeys {
		return "~*"
	}
	list := make([]string, len(s.keys))
	for i, p := range s.keys {
		list[i] = map[needs]string{readsAndWrites: "~", reads: "%R~", writes: "%W~"}[p.allow] + p.glob
	}
	return strings.Join(list, " ")
}

func (s *selector) channelRules() string {
	if s.allChannels {
		return "&*"
	}
	list := make([]string, len(s.channels))
	for i, glob := range s.channels {
		list[i] = "&" + glob
	}
	return strings.Join(list, " ")
}

// text returns the selector in the words of ACL LIST.
func (s *selector) text() string {
	words := []string{}
	if keys := s.keyRules(); keys != "" {
		words = append(words, keys)
	}
	if !s.allChannels {
		words = append(words, "resetchannels")
	}
	if channels := s.channelRules(); channels != "" {
		words = append(words, channels)
	}
	return strings.Join(append(words, s.commandRules()), " ")
}
