package acl

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"slices"
	"strings"

	"lockd/resp"
)

// DefaultName is the user of a connection that has not authenticated.
const DefaultName = "default"

// rulesBytesMax bounds the text of one user's rules.
const rulesBytesMax = 64 << 10

// rulesMax bounds the rules of one call; patternsMax bounds, in one selector, the patterns of keys, those of
// channels, and the first arguments of a command.
const (
	rulesMax    = 4096
	patternsMax = 1024
)

// checkStepsMax bounds the work of one check in steps of resp.Glob. A pattern that has not matched by then does not
// match.
const checkStepsMax = 1 << 20

// User is a user with all its rules. It is immutable.
type User struct {
	Name      string
	On        bool // may authenticate
	NoPass    bool // any password will do
	sanitize  sanitizing
	passwords []string    // SHA-256, 64 hex digits each
	selectors []*selector // at least one: the first has the rules outside of parentheses
	text      string      // returned by Text
}

// sanitizing is the rule about payloads of RESTORE. It is stored and shown, and has no effect.
type sanitizing uint8

const (
	sanitizeUnsaid sanitizing = iota
	sanitizePayload
	sanitizeSkip
)

// New returns a user that may do nothing.
func New(known *Commands, name string) *User {
	root := &selector{}
	root.setAll(known, false)
	return (&User{Name: name, selectors: []*selector{root}}).written()
}

// NewDefault returns the default user of an unconfigured server.
func NewDefault(known *Commands) *User {
	u := New(known, DefaultName)
	root := u.selectors[0]
	root.setAll(known, true)
	root.allKeys, root.allChannels, u.On, u.NoPass = true, true, true, true
	return u.written()
}

// written sets the text of u, which must not change afterwards, and returns u.
func (u *User) written() *User {
	words := u.flags()
	for _, p := range u.passwords {
		words = append(words, "#"+p)
	}
	for i, s := range u.selectors {
		if text := s.text(); i == 0 {
			words = append(words, text)
		} else {
			words = append(words, "("+text+")")
		}
	}
	u.text = strings.Join(words, " ")
	return u
}

// ValidName reports whether a name is valid for a user.
func ValidName(name string) bool { return name != "" && !hasSpaces(name) }

func (u *User) clone() *User {
	c := *u
	c.passwords, c.selectors = slices.Clone(u.passwords), slices.Clone(u.selectors)
	for i, s := range c.selectors {
		c.selectors[i] = s.clone()
	}
	return &c
}

// With returns the user changed by all of the rules, or an error, that of ACL SETUSER, if one is wrong.
func (u *User) With(known *Commands, rules []string) (*User, error) {
	if len(rules) > rulesMax {
		return nil, resp.Error(errTooMuch)
	}
	rules, err := merge(rules)
	if err != nil {
		return nil, err
	}
	next := u.clone()
	for _, rule := range rules {
		if err := next.apply(known, rule); err != nil {
			return nil, resp.Errorf("ERR Error in ACL SETUSER modifier '%s': %s", rule, err)
		}
	}
	if len(next.written().text) > rulesBytesMax {
		return nil, resp.Error(errTooMuch)
	}
	return next, nil
}

// Read makes a user of a name and the Text of one. It skips rules about unknown commands; the error is the first
// other one.
func Read(known *Commands, name, text string) (*User, error) {
	rules, err := merge(strings.Split(text, " "))
	if err != nil {
		return nil, err
	}
	u := New(known, name)
	for _, rule := range rules {
		if why := u.apply(known, rule); why != nil && why != errUnknown && err == nil {
			err = why
		}
	}
	return u.written(), err
}

// merge joins the words of a selector that are spread over several arguments, as Redis does.
func merge(rules []string) ([]string, error) {
	var merged []string
	open := -1
	for i, rule := range rules {
		switch {
		case open >= 0:
			merged[len(merged)-1] += " " + rule
			if strings.HasSuffix(rule, ")") {
				open = -1
			}
		default:
			merged = append(merged, rule)
			if strings.HasPrefix(rule, "(") && !strings.HasSuffix(rule, ")") {
				open = i
			}
		}
	}
	if open >= 0 {
		return nil, resp.Errorf("ERR Unmatched parenthesis in acl selector starting at '%s'.", rules[open])
	}
	return merged, nil
}

// apply changes the user, which is not shared yet, by one rule.
func (u *User) apply(known *Commands, rule string) error {
	if rule == "" {
		return nil
	}
	switch lower := strings.ToLower(rule); lower {
	case "on", "off":
		u.On = lower == "on"
	case "sanitize-payload":
		u.sanitize = sanitizePayload
	case "skip-sanitize-payload":
		u.sanitize = sanitizeSkip
	case "nopass", "resetpass":
		u.NoPass, u.passwords = lower == "nopass", nil
	case "clearselectors":
		u.selectors = u.selectors[:1]
	case "reset":
		*u = *New(known, u.Name)
		u.sanitize = sanitizePayload
	default:
		switch {
		case strings.Contains("><#!", rule[:1]):
			return u.applyPassword(rule)
		case rule[0] == '(' && rule[len(rule)-1] == ')':
			return u.addSelector(known, rule[1:len(rule)-1])
		}
		return u.selectors[0].apply(known, rule)
	}
	return nil
}

func (u *User) applyPassword(rule string) error {
	rule = Hashed(rule)
	hash := rule[1:]
	if !isHash(hash) {
		return errHash
	}
	at := slices.Index(u.passwords, hash)
	switch {
	case rule[0] == '#':
		if at < 0 {
			u.passwords = append(u.passwords, hash)
		}
		u.NoPass = false
	case at < 0:
		return errNoPassword
	default:
		u.passwords = slices.Delete(u.passwords, at, at+1)
	}
	return nil
}

func (u *User) addSelector(known *Commands, rules string) error {
	s := New(known, "").selectors[0]
	words, ok := resp.SplitWords(rules)
	if !ok || len(words) > rulesMax || len(u.selectors) >= patternsMax {
		return errRuleSyntax
	}
	for _, rule := range words {
		if rule == "" || strings.ContainsAny(rule, `"'`) || rule[len(rule)-1] == ')' {
			return errRuleSyntax // it could not be read back
		}
		if err := s.apply(known, rule); err != nil {
			return err
		}
	}
	u.selectors = append(u.selectors, s)
	return nil
}

// Hash returns the form in which a password is stored: SHA-256 in hex.
func Hash(password string) string {
	sum := sha256.Sum256([]byte(password))
	return hex.EncodeToString(sum[:])
}

// Hashed returns a rule without a password in clear: >password becomes #hash, and <password !hash.
func Hashed(rule string) string {
	switch {
	case strings.HasPrefix(rule, ">"):
		return "#" + Hash(rule[1:])
	case strings.HasPrefix(rule, "<"):
		return "!" + Hash(rule[1:])
	}
	return rule
}

func isHash(s string) bool {
	return len(s) == 2*sha256.Size && strings.Trim(s, "0123456789abcdef") == ""
}

// Lets reports whether a password authenticates the user. Comparing takes a time that tells nothing about the hash.
func (u *User) Lets(password string) bool {
	if !u.On || u.NoPass {
		return u.On
	}
	hash, found := []byte(Hash(password)), 0
	for _, p := range u.passwords {
		found |= subtle.ConstantTimeCompare(hash, []byte(p))
	}
	return found == 1
}

// Open reports whether the user needs no password.
func (u *User) Open() bool { return u.On && u.NoPass }

// WithPassword returns the user with this password, which belongs to one node, if it has none of its own.
func (u *User) WithPassword(password string) *User {
	if !u.NoPass || password == "" {
		return u
	}
	c := *u
	c.NoPass, c.passwords = false, []string{Hash(password)}
	return c.written()
}

// PasswordRule returns the first of the user's passwords as a rule, #HASH; "" if there is none.
func (u *User) PasswordRule() string {
	if u.NoPass || len(u.passwords) == 0 {
		return ""
	}
	return "#" + u.passwords[0]
}

// Unlimited reports whether the user may do everything, so that no call needs a check.
func (u *User) Unlimited() bool {
	return slices.ContainsFunc(u.selectors, func(s *selector) bool { return s.allCommands && s.allKeys && s.allChannels })
}

// Check tells whether the user may make a call, whose arity is right, and if not, which object is denied: the
// command's name, a key or a channel. steps is the work of the check, in steps of resp.Glob.
func (u *User) Check(cmd *Command, args resp.Args) (why Reason, object string, steps int) {
	budget := checkStepsMax
	worst := denial{reason: DeniedCommand}
	for _, s := range u.selectors {
		d := s.check(cmd, args, &budget)
		if d.reason == Allowed {
			return Allowed, "", checkStepsMax - budget
		}
		if d.reason > worst.reason || d.reason == worst.reason && d.place > worst.place {
			worst = d
		}
	}
	if worst.reason == DeniedCommand {
		worst.object = cmd.Spec.Name
	}
	return worst.reason, worst.object, checkStepsMax - budget
}

// HasChannel reports whether one of the user's selectors allows a channel, or a pattern of channels.
func (u *User) HasChannel(name string, pattern bool) bool {
	budget := checkStepsMax
	return slices.ContainsFunc(u.selectors, func(s *selector) bool { return s.hasChannel(name, pattern, &budget) })
}

// flags returns the words about the user as a whole.
func (u *User) flags() []string {
	flags := []string{"off"}
	if u.On {
		flags[0] = "on"
	}
	if u.NoPass {
		flags = append(flags, "nopass")
	}
	switch u.sanitize {
	case sanitizeSkip:
		flags = append(flags, "skip-sanitize-payload")
	case sanitizePayload:
		flags = append(flags, "sanitize-payload")
	}
	return flags
}

// Text returns the user's rules as ACL LIST shows them, without the name. Read makes the same user of them.
func (u *User) Text() string { return u.text }

// Describe returns the answer of ACL GETUSER.
func (u *User) Describe() resp.Reply {
	flags := resp.Bulks(u.flags()...)
	flags.Kind = resp.KindSet
	fields := []resp.Reply{
		resp.Bulk("flags"), flags, resp.Bulk("passwords"), resp.Bulks(u.passwords...),
	}
	fields = append(fields, u.selectors[0].describe()...)
	others := make([]resp.Reply, 0, len(u.selectors)-1)
	for _, s := range u.selectors[1:] {
		others = append(others, resp.Map(s.describe()...))
	}
	return resp.Map(append(fields, resp.Bulk("selectors"), resp.Array(others...))...)
}

func (s *selector) describe() []resp.Reply {
	return []resp.Reply{
		resp.Bulk("commands"), resp.Bulk(s.commandRules()), resp.Bulk("keys"), resp.Bulk(s.keyRules()),
		resp.Bulk("channels"), resp.Bulk(s.channelRules()),
	}
}
