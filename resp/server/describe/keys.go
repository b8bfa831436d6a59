package describe

import (
	"lockd/resp"
	"lockd/resp/acl"
)

// KeyFlags returns how a call uses its key i, as COMMAND GETKEYSANDFLAGS does. spec is the row of the call, and key i
// one that spec.Keys finds.
func KeyFlags(spec *resp.Spec, call resp.Args, i int) resp.Reply {
	return words(acl.KeyFlags(spec, call, i))
}

// keySpecs returns Redis 7's key specifications: for each, where to begin the search, and how to find the keys from
// there.
func keySpecs(spec *resp.Spec) resp.Reply {
	k, specs := spec.Keys, resp.Set()
	if k == resp.NoKeys {
		return specs
	}
	step := resp.Int(int64(max(k.Step, 1)))
	for _, u := range acl.UsesOf(spec) {
		begin := typed("index", resp.Bulk("index"), resp.Int(int64(u.At)))
		find := typed("range", resp.Bulk("lastkey"), resp.Int(lastKey(spec, u)), resp.Bulk("keystep"), step,
			resp.Bulk("limit"), resp.Int(0))
		switch {
		case k.Half != "": // limit 2: the first half of the arguments after the word
			begin = typed("keyword", resp.Bulk("keyword"), resp.Bulk(k.Half), resp.Bulk("startfrom"), resp.Int(1))
			find = typed("range",
				resp.Bulk("lastkey"), resp.Int(-1), resp.Bulk("keystep"), resp.Int(1), resp.Bulk("limit"), resp.Int(2))
		case u.At == k.NumAt:
			find = typed("keynum",
				resp.Bulk("keynumidx"), resp.Int(0), resp.Bulk("firstkey"), resp.Int(1), resp.Bulk("keystep"), step)
		}
		specs.Elems = append(specs.Elems, resp.Map(resp.Bulk("flags"), words(u.Flags),
			resp.Bulk("begin_search"), begin, resp.Bulk("find_keys"), find))
	}
	return specs
}

// typed returns one half of a key specification.
func typed(kind string, spec ...resp.Reply) resp.Reply {
	return resp.Map(resp.Bulk("type"), resp.Bulk(kind), resp.Bulk("spec"), resp.Map(spec...))
}

// lastKey returns the last key as an offset from the first, or from the end if negative.
func lastKey(spec *resp.Spec, u acl.Use) int64 {
	switch {
	case u.Last:
		return int64(min(spec.Keys.Last, -1))
	case spec.Access != "" || spec.Keys.Last < spec.Keys.First:
		return 0
	}
	return int64(spec.Keys.Last - spec.Keys.First)
}
