package acl

import (
	"slices"
	"strings"

	"lockd/resp"
)

// Use tells how a command uses some of its keys.
type Use struct {
	Flags []string // RW, access, update ...
	At    int      // the argument where these keys begin
	Last  bool     // they go on to the last argument

	variable, free needs // rights that a call needs: without GET among its options, and with it
}

// UsesOf lists how a command uses its keys: as its row says, or else derived from its flags. If a count and source
// keys follow the key of a result (ZUNIONSTORE), only that key is written.
func UsesOf(spec *resp.Spec) []Use {
	uses := readAccess(spec)
	if k := spec.Keys; len(uses) == 0 && k.First > 0 && k.NumAt > 0 {
		uses = []Use{{Flags: []string{"OW", "update"}, At: k.First}, {Flags: []string{"RO", "access"}, At: k.NumAt}}
	} else if len(uses) == 0 {
		uses = []Use{{Flags: access(spec), At: max(k.First, k.NumAt), Last: k.Last < 0}}
	}
	return uses
}

// readAccess parses the row's Access; nil if it is empty.
func readAccess(spec *resp.Spec) []Use {
	var uses []Use
	for part := range strings.SplitSeq(spec.Access, ";") {
		flags := strings.Fields(part)
		if len(flags) == 0 {
			continue
		}
		one := Use{Flags: flags, At: max(spec.Keys.First, spec.Keys.NumAt), Last: spec.Keys.Last < 0}
		if at, last := strings.CutSuffix(flags[0], "-"); at[0] >= '1' && at[0] <= '9' {
			n, _ := resp.ParseInt(at)
			one = Use{Flags: flags[1:], At: int(n), Last: last}
		}
		uses = append(uses, one)
	}
	return uses
}

// access derives from a command's flags how it uses its keys, all of them alike.
func access(spec *resp.Spec) []string {
	writes := spec.Flags&(resp.Write|resp.MayReplicate) != 0
	switch {
	case spec.Flags&resp.PubSub != 0 || spec.Name == "spublish":
		return []string{"not_key"}
	case writes || spec.Keys.NumAt > 0 && spec.Flags&resp.ReadOnly == 0:
		return []string{"RW", "access", "update"}
	case spec.Group == "transactions":
		return []string{"RO"} // the value does not matter
	}
	return []string{"RO", "access"}
}

// useOf returns how key i of a call is used.
func useOf(spec *resp.Spec, uses []Use, i int) *Use {
	at := spec.Keys.First + i*spec.Keys.Step
	found := &uses[len(uses)-1]
	for j := range uses {
		if u := &uses[j]; u.At == at || u.At < at && u.Last {
			found = u
		}
	}
	return found
}

// variableFlags ends the flags of a use that depend on the options of a call: SET reads the value that it replaces
// only with GET.
const variableFlags = "variable_flags"

// flagsOf returns the flags of a use in a call.
func (u *Use) flagsOf(call resp.Args) []string {
	n := len(u.Flags) - 1
	if u.Flags[n] != variableFlags {
		return u.Flags
	}
	if !saysGet(call) {
		return []string{"OW", "update"}
	}
	return u.Flags[:n]
}

// saysGet reports whether an option of SET is GET; a key and a value come before the options.
func saysGet(call resp.Args) bool {
	const options = 3
	return len(call) > options &&
		slices.ContainsFunc(call[options:], func(word string) bool { return resp.Is(word, "GET") })
}

// KeyFlags returns, in Redis's words, how a call uses its key i. spec is the row of the call, and key i one that
// spec.Keys finds.
func KeyFlags(spec *resp.Spec, call resp.Args, i int) []string {
	return useOf(spec, UsesOf(spec), i).flagsOf(call)
}

// needs are the rights that a use of a key requires.
type needs uint8

const (
	reads needs = 1 << iota
	writes

	readsAndWrites = reads | writes
)

// needsOf returns the rights that flags require: none to learn whether a key exists.
func needsOf(flags []string) (n needs) {
	for _, flag := range flags {
		switch flag {
		case "access":
			n |= reads
		case "insert", "delete", "update":
			n |= writes
		}
	}
	return n
}

// usesForCheck returns the uses of a command with the rights they require.
func usesForCheck(spec *resp.Spec) []Use {
	uses := UsesOf(spec)
	for i := range uses {
		u := &uses[i]
		u.free, u.variable = needsOf(u.Flags), needsOf(u.flagsOf(nil))
	}
	return uses
}

// needsIn returns the rights that a use requires in a call.
func (u *Use) needsIn(call resp.Args) needs {
	if u.free != u.variable && !saysGet(call) {
		return u.variable
	}
	return u.free
}
