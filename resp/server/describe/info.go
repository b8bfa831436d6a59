package describe

import (
	"strings"

	"lockd/resp"
)

// Info is one element of COMMAND INFO, in the shape of Redis 7.
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

// typeCategories are the categories of the groups that are a type of value.
var typeCategories = map[string]string{
	"string": "@string", "hash": "@hash", "list": "@list", "set": "@set", "sorted-set": "@sortedset",
	"bitmap": "@bitmap", "stream": "@stream",
}

// Categories derives the ACL categories from the row, as Redis does from flags and group. Each
// begins with @.
func Categories(spec *resp.Spec) []string {
	var list []string
	add := func(cond bool, name string) {
		if cond {
			list = append(list, name)
		}
	}
	f := spec.Flags
	leaf := len(spec.Subs) == 0
	add(leaf && spec.Group == "generic", "@keyspace")
	add(f&resp.Write != 0, "@write")
	add(f&resp.ReadOnly != 0 && spec.Group != "scripting", "@read")
	add(leaf && typeCategories[spec.Group] != "", typeCategories[spec.Group])
	add(f&resp.PubSub != 0, "@pubsub")
	add(f&resp.Admin != 0, "@admin")
	add(f&resp.Fast != 0, "@fast")
	add(f&resp.Fast == 0, "@slow")
	add(f&resp.Blocking != 0, "@blocking")
	add(f&resp.Admin != 0, "@dangerous")
	add(spec.Group == "connection" && leaf || strings.HasPrefix(spec.Name, "command") ||
		spec.Group == "cluster" && !strings.HasPrefix(spec.Name, "cluster"), "@connection")
	add(spec.Group == "transactions", "@transaction")
	add(leaf && spec.Group == "scripting", "@scripting")
	return list
}

// words is a set of simple strings.
func words(list []string) resp.Reply {
	elems := make([]resp.Reply, len(list))
	for i, word := range list {
		elems[i] = resp.Status(word)
	}
	return resp.Set(elems...)
}
