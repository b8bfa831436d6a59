package describe

import (
	"slices"
	"strings"

	"lockd/resp"
)

// use is what a command does with some of its keys.
type use struct {
	flags []string // RW, access, update ...
	at    int      // the argument where these keys begin
	last  bool     // they go on to the last argument
}

// usesOf lists how a command uses its keys: as its row says, or as follows from it. Where sources
// follow the key of a result and a number, only that key is written.
func usesOf(spec *resp.Spec) []use {
	if uses := readAccess(spec); len(uses) > 0 {
		return uses
	}
	k := spec.Keys
	if k.First > 0 && k.NumAt > 0 {
		return []use{{flags: []string{"OW", "update"}, at: k.First}, {flags: []string{"RO", "access"}, at: k.NumAt}}
	}
	return []use{{flags: access(spec), at: max(k.First, k.NumAt), last: k.Last < 0}}
}

// readAccess reads the row's Access; nothing where that is empty.
func readAccess(spec *resp.Spec) []use {
	var uses []use
	for part := range strings.SplitSeq(spec.Access, ";") {
		flags := strings.Fields(part)
		if len(flags) == 0 {
			continue
		}
		one := use{flags: flags, at: max(spec.Keys.First, spec.Keys.NumAt), last: spec.Keys.Last < 0}
		if at, last := strings.CutSuffix(flags[0], "-"); at[0] >= '1' && at[0] <= '9' {
			n, _ := resp.ParseInt(at)
			one = use{flags: flags[1:], at: int(n), last: last}
		}
		uses = append(uses, one)
	}
	return uses
}

// access derives how a command uses its keys, all in the same way.
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

// KeyFlags says how a call uses its key i, as COMMAND GETKEYSANDFLAGS does. The row is that of the
// call, and key i one that its Keys has found.
func KeyFlags(spec *resp.Spec, call resp.Args, i int) resp.Reply {
	uses, at := usesOf(spec), spec.Keys.First+i*spec.Keys.Step
	found := uses[len(uses)-1]
	for _, u := range uses {
		if u.at == at || u.at < at && u.last {
			found = u
		}
	}
	flags := found.flags
	if n := len(flags) - 1; flags[n] == "variable_flags" {
		flags = flags[:n]
		if !slices.ContainsFunc(call, func(word string) bool { return resp.Is(word, "GET") }) {
			flags = []string{"OW", "update"} // SET does not read what it replaces, unless it is told to
		}
	}
	return words(flags)
}

// keySpecs is the newer description of where the keys stand: where to begin to search, and how to
// find the keys from there.
func keySpecs(spec *resp.Spec) resp.Reply {
	k, specs := spec.Keys, resp.Set()
	if k == resp.NoKeys {
		return specs
	}
	step := resp.Int(int64(max(k.Step, 1)))
	for _, u := range usesOf(spec) {
		begin := typed("index", resp.Bulk("index"), resp.Int(int64(u.at)))
		find := typed("range", resp.Bulk("lastkey"), resp.Int(lastKey(spec, u)), resp.Bulk("keystep"), step,
			resp.Bulk("limit"), resp.Int(0))
		switch {
		case k.Half != "": // limit 2: the first half of what follows the word
			begin = typed("keyword", resp.Bulk("keyword"), resp.Bulk(k.Half), resp.Bulk("startfrom"), resp.Int(1))
			find = typed("range",
				resp.Bulk("lastkey"), resp.Int(-1), resp.Bulk("keystep"), resp.Int(1), resp.Bulk("limit"), resp.Int(2))
		case u.at == k.NumAt:
			find = typed("keynum",
				resp.Bulk("keynumidx"), resp.Int(0), resp.Bulk("firstkey"), resp.Int(1), resp.Bulk("keystep"), step)
		}
		specs.Elems = append(specs.Elems, resp.Map(resp.Bulk("flags"), words(u.flags),
			resp.Bulk("begin_search"), begin, resp.Bulk("find_keys"), find))
	}
	return specs
}

// typed is one half of a key specification.
func typed(kind string, spec ...resp.Reply) resp.Reply {
	return resp.Map(resp.Bulk("type"), resp.Bulk(kind), resp.Bulk("spec"), resp.Map(spec...))
}

// lastKey counts from the first key, or from the end where it is negative.
func lastKey(spec *resp.Spec, u use) int64 {
	switch {
	case u.last:
		return int64(min(spec.Keys.Last, -1))
	case spec.Access != "" || spec.Keys.Last < spec.Keys.First:
		return 0
	}
	return int64(spec.Keys.Last - spec.Keys.First)
}
