package describe

import (
	"lockd/resp"
	"lockd/resp/acl"
)

// Info returns one element of COMMAND INFO, in the shape of Redis 7.
func Info(spec *resp.Spec) resp.Reply {
	k, flags := spec.Keys, spec.Flags.Names()
	if k.NumAt > 0 && spec.Flags&resp.MovableKeys == 0 {
		flags = append(flags, "movablekeys")
	}
	if k.First == 0 {
		k.Last, k.Step = 0, 0
	}
	subs := resp.Set() // Redis's own slip: only an empty list is a set
	for _, sub := range spec.Subs {
		subs.Kind = resp.KindArray
		subs.Elems = append(subs.Elems, Info(sub))
	}
	return resp.Array(resp.Bulk(spec.Name), resp.Int(int64(spec.Arity)), words(flags),
		resp.Int(int64(k.First)), resp.Int(int64(k.Last)), resp.Int(int64(k.Step)), words(Categories(spec)),
		resp.Set(), keySpecs(spec), subs)
}

// Categories returns the ACL categories of a command. Each begins with @.
func Categories(spec *resp.Spec) []string {
	list := acl.CategoriesOf(spec).Names()
	for i, name := range list {
		list[i] = "@" + name
	}
	return list
}

// words returns a set of simple strings.
func words(list []string) resp.Reply {
	elems := make([]resp.Reply, len(list))
	for i, word := range list {
		elems[i] = resp.Status(word)
	}
	return resp.Set(elems...)
}
