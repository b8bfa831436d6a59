package face

import (
	"strconv"
	"strings"

	"lockd/resp"
)

// What the commands about the cluster have in common: the answer to those that change replication by hand, and the
// flags of those that only read.
const (
	NotByHand = "ERR lockd replicates by itself: see LOCKD HELP for adding, removing and changing the leader"
	ReadFlags = resp.Loading | resp.Stale
)

// sectionOrder is the order in which INFO lists its sections, and which of them
// belong to the default set.
var sectionOrder = []struct {
	name      string
	byDefault bool
}{
	{"server", true}, {"clients", true}, {"memory", true}, {"persistence", true}, {"stats", true},
	{"replication", true}, {"cpu", true}, {"modules", true}, {"commandstats", false}, {"errorstats", true},
	{"latencystats", false}, {"sentinel", true}, {"cluster", true}, {"keyspace", true}, {"raft", true},
	{"tls", true},
}

// InfoReply lists the sections asked for, in their order.
func InfoReply(args resp.Args, sections []resp.Section) resp.Reply {
	wanted := map[string]bool{}
	for _, a := range args[1:] {
		wanted[strings.ToLower(a)] = true
	}
	if len(args) == 1 {
		wanted["default"] = true
	}
	var out strings.Builder
	for _, o := range sectionOrder {
		all := wanted["all"] || wanted["everything"] || wanted["default"] && o.byDefault
		if all || wanted[o.name] {
			writeSections(&out, o.name, sections)
		}
	}
	return resp.Verbatim(out.String())
}

// writeSections writes everything that anybody knows for one section.
func writeSections(out *strings.Builder, name string, sections []resp.Section) {
	begun := false
	for _, s := range sections {
		if !strings.EqualFold(s.Name, name) {
			continue
		}
		if !begun {
			if out.Len() > 0 {
				out.WriteString("\r\n")
			}
			out.WriteString("# " + s.Name + "\r\n")
			begun = true
		}
		for _, f := range s.Fields {
			out.WriteString(f.Name + ":" + f.Value + "\r\n")
		}
	}
}

// Section makes a section from names and values in turn.
func Section(name string, pairs ...string) resp.Section {
	s := resp.Section{Name: name}
	for i := 0; i+1 < len(pairs); i += 2 {
		s.Fields = append(s.Fields, resp.Field{Name: pairs[i], Value: pairs[i+1]})
	}
	return s
}

// U64 writes a number in decimal digits.
func U64(n uint64) string { return strconv.FormatUint(n, 10) }

// I64 writes a number in decimal digits.
func I64(n int64) string { return strconv.FormatInt(n, 10) }

// Flag writes a condition as 1 or 0.
func Flag(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

// OKOr writes a condition as ok or err.
func OKOr(ok bool) string {
	if ok {
		return "ok"
	}
	return "err"
}

// Number reads an integer argument of a command that has no other errors.
func Number(s string) (int64, error) {
	n, ok := resp.ParseInt(s)
	if !ok {
		return 0, resp.Error(resp.ErrNotInteger)
	}
	return n, nil
}
