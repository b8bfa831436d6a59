package describe

import (
	"slices"

	"lockd/resp"
)

// keySpecs is the newer description of where the keys stand.
func keySpecs(spec *resp.Spec) resp.Reply {
	k, specs := spec.Keys, resp.Set()
	if k == resp.NoKeys {
		return specs
	}
	for _, use := range usesOf(spec) {
		var one resp.Reply
		switch {
		case k.Half != "":
			one = wordKeySpec(use.Flags, k.Half)
		case use.At == k.NumAt:
			one = keySpec(use.Flags, k.NumAt, "keynum",
				resp.Bulk("keynumidx"), resp.Int(0), resp.Bulk("firstkey"), resp.Int(1),
				resp.Bulk("keystep"), resp.Int(int64(max(k.Step, 1))))
		default:
			one = keySpec(use.Flags, use.At, "range",
				resp.Bulk("lastkey"), resp.Int(lastKey(spec, use)),
				resp.Bulk("keystep"), resp.Int(int64(max(k.Step, 1))), resp.Bulk("limit"), resp.Int(0))
		}
		specs.Elems = append(specs.Elems, one)
	}
	return specs
}

// wordKeySpec describes the first half of what follows a word.
func wordKeySpec(flags []string, word string) resp.Reply {
	return resp.Map(
		resp.Bulk("flags"), statuses(resp.KindSet, flags),
		resp.Bulk("begin_search"), resp.Map(resp.Bulk("type"), resp.Bulk("keyword"), resp.Bulk("spec"),
			resp.Map(resp.Bulk("keyword"), resp.Bulk(word), resp.Bulk("startfrom"), resp.Int(1))),
		resp.Bulk("find_keys"), resp.Map(resp.Bulk("type"), resp.Bulk("range"), resp.Bulk("spec"),
			resp.Map(resp.Bulk("lastkey"), resp.Int(-1), resp.Bulk("keystep"), resp.Int(1), resp.Bulk("limit"),
				resp.Int(2))),
	)
}

func keySpec(flags []string, at int, kind string, find ...resp.Reply) resp.Reply {
	return resp.Map(
		resp.Bulk("flags"), statuses(resp.KindSet, flags),
		resp.Bulk("begin_search"), resp.Map(resp.Bulk("type"), resp.Bulk("index"), resp.Bulk("spec"),
			resp.Map(resp.Bulk("index"), resp.Int(int64(at)))),
		resp.Bulk("find_keys"), resp.Map(resp.Bulk("type"), resp.Bulk(kind), resp.Bulk("spec"), resp.Map(find...)),
	)
}

// lastKey counts from the first key, or from the end where it is negative.
func lastKey(spec *resp.Spec, use resp.KeyUse) int64 {
	switch {
	case use.Last:
		return int64(min(spec.Keys.Last, -1))
	case spec.Access != "" || spec.Keys.Last < spec.Keys.First:
		return 0
	}
	return int64(spec.Keys.Last - spec.Keys.First)
}

// usesOf lists how the keys are used. Where sources follow the key of a result and a
// number, only that one is written.
func usesOf(spec *resp.Spec) []resp.KeyUse {
	if uses := spec.KeyUses(); len(uses) > 0 {
		return uses
	}
	k := spec.Keys
	if k.First > 0 && k.NumAt > 0 {
		return []resp.KeyUse{
			{Flags: []string{"OW", "update"}, At: k.First},
			{Flags: []string{"RO", "access"}, At: k.NumAt},
		}
	}
	return []resp.KeyUse{{Flags: access(spec), At: max(k.First, k.NumAt), Last: k.Last < 0}}
}

// access says how a command uses its keys, where its row does not.
func access(spec *resp.Spec) []string {
	switch {
	case spec.Flags&resp.PubSub != 0 || spec.Name == "spublish":
		return []string{"not_key"}
	case spec.Flags&resp.Write != 0:
		return []string{"RW", "access", "update"}
	case spec.Flags&resp.MayReplicate != 0 || spec.Keys.NumAt > 0 && spec.Flags&resp.ReadOnly == 0:
		return []string{"RW", "access", "update"}
	}
	if spec.Group == "transactions" {
		return []string{"RO"} // the value does not matter
	}
	return []string{"RO", "access"}
}

// KeyFlags says how key i of a call is used, as COMMAND GETKEYSANDFLAGS does. spec is the row of
// the call, whose Keys has found the key.
func KeyFlags(spec *resp.Spec, call resp.Args, i int) resp.Reply {
	return statuses(resp.KindSet, useOf(spec, call, i))
}

func useOf(spec *resp.Spec, call resp.Args, i int) []string {
	uses, k := usesOf(spec), spec.Keys
	at := k.First + i*k.Step
	use := uses[len(uses)-1]
	for _, u := range uses {
		if u.At == at || u.At < at && u.Last {
			use = u
		}
	}
	if n := len(use.Flags) - 1; use.Flags[n] == "variable_flags" {
		return variableUse(use.Flags[:n], call)
	}
	return use.Flags
}

// variableUse: SET does not read what it replaces unless it is told to.
func variableUse(flags []string, call resp.Args) []string {
	if slices.ContainsFunc(call, func(word string) bool { return resp.Is(word, "GET") }) {
		return flags
	}
	return []string{"OW", "update"}
}
