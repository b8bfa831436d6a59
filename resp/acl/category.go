package acl

import (
	"strings"

	"lockd/resp"
)

// Category is a set of categories of commands.
type Category uint32

// categoryNames are the categories in Redis's order, then lockd's own.
var categoryNames = []string{
	"keyspace", "read", "write", "set", "sortedset", "list", "hash", "string", "bitmap", "hyperloglog", "geo",
	"stream", "pubsub", "admin", "fast", "slow", "blocking", "dangerous", "connection", "transaction", "scripting",
	"lock", "force", "cluster",
}

// CategoryNames lists all categories.
func CategoryNames() []string { return categoryNames }

// CategoryNamed returns the category of a word in any case; 0 if the word names none.
func CategoryNamed(word string) Category {
	for i, name := range categoryNames {
		if resp.Is(word, name) {
			return 1 << i
		}
	}
	return 0
}

// Names lists the categories of a set.
func (c Category) Names() []string {
	var names []string
	for i, name := range categoryNames {
		if c&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// typeCategories maps the groups of commands on one type of value to the category of that type.
var typeCategories = map[string]string{
	"string": "string", "hash": "hash", "list": "list", "set": "set", "sorted-set": "sortedset",
	"bitmap": "bitmap", "stream": "stream",
}

// CategoriesOf derives the categories of a command from its row, as Redis does from flags and group.
func CategoriesOf(spec *resp.Spec) (set Category) {
	add := func(cond bool, name string) {
		if cond {
			set |= CategoryNamed(name)
		}
	}
	f, leaf := spec.Flags, len(spec.Subs) == 0
	add(leaf && spec.Group == "generic", "keyspace")
	add(f&resp.Write != 0, "write")
	add(f&resp.ReadOnly != 0 && spec.Group != "scripting", "read")
	add(leaf && typeCategories[spec.Group] != "", typeCategories[spec.Group])
	add(f&resp.PubSub != 0, "pubsub")
	add(f&resp.Admin != 0, "admin")
	add(f&resp.Fast != 0, "fast")
	add(f&resp.Fast == 0, "slow")
	add(f&resp.Blocking != 0, "blocking")
	add(f&resp.Admin != 0, "dangerous")
	add(spec.Group == "connection" && leaf || strings.HasPrefix(spec.Name, "command") ||
		spec.Group == "cluster" && !strings.HasPrefix(spec.Name, "cluster"), "connection")
	add(spec.Group == "transactions", "transaction")
	add(leaf && spec.Group == "scripting", "scripting")
	container, _, _ := strings.Cut(spec.Name, "|")
	// A rule about a container's category would cover all its subcommands, so LOCKS itself has none of these.
	add(leaf && spec.Group == "lockd" && container != "lockd" && spec.Name != "locks|force", "lock")
	add(spec.Name == "locks|force", "force")
	add(container == "lockd", "cluster")
	return set
}
