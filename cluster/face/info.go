package face

import (
	"strconv"
	"strings"

	"lockd/resp"
)

// The commands about the cluster share the answer to commands that change replication by hand, and the flags of
// commands that only read.
const (
	NotByHand = "ERR lockd replicates by itself: see LOCKD HELP for adding, removing and changing the leader"
	ReadFlags = resp.Loading | resp.Stale
)

// sectionOrder lists the sections of INFO in their order, and marks the default ones.
var sectionOrder = []struct {
	name      string
	byDefault bool
}{
	{"server", true}, {"clients", true}, {"memory", true}, {"persistence", true}, {"stats", true},
	{"replication", true}, {"cpu", true}, {"modules", true}, {"commandstats", false}, {"errorstats", true},
	{"latencystats", false}, {"sentinel", true}, {"cluster", true}, {"keyspace", true}, {"raft", true},
	{"tls", true},
}

// InfoReply returns the requested sections, in the order of sectionOrder.
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

// writeSections writes all fields of one section, whose parts come from several sources.
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

// Section returns a section made of alternating names and values.
func Section(name string, pairs ...string) resp.Section {
	s := resp.Section{Name: name}
	for i := 0; i+1 < len(pairs); i += 2 {
		s.Fields = append(s.Fields, resp.Field{Name: pairs[i], Value: pairs[i+1]})
	}
	return s
}

// U64 formats a number in decimal.
func U64(n uint64) string { return strconv.FormatUint(n, 10) }

// I64 formats a number in decimal.
func I64(n int64) string { return strconv.FormatInt(n, 10) }

// Flag formats a condition as 1 or 0.
func Flag(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

// OKOr formats a condition as ok or err.
func OKOr(ok bool) string {
	if ok {
		return "ok"
	}
	return "err"
}

// Number parses an integer argument of a command that has no error texts of its own.
func Number(s string) (int64, error) {
	n, ok := resp.ParseInt(s)
	if !ok {
		return 0, resp.Error(resp.ErrNotInteger)
	}
	return n, nil
}
