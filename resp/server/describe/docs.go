package describe

import (
	"slices"
	"strings"

	"lockd/resp"
)

// Docs returns the answer of COMMAND DOCS for the commands.
func Docs(specs []*resp.Spec) resp.Reply {
	elems := make([]resp.Reply, 0, 2*len(specs))
	for _, spec := range specs {
		elems = append(elems, resp.Bulk(spec.Name), docOf(spec))
	}
	return resp.Map(elems...)
}

// docOf describes a command; it omits arguments and subcommands if there are none.
func docOf(spec *resp.Spec) resp.Reply {
	elems := []resp.Reply{
		resp.Bulk("summary"), resp.Bulk(spec.Summary),
		resp.Bulk("since"), resp.Bulk(spec.Since),
		resp.Bulk("group"), resp.Bulk(spec.Group),
	}
	if spec.Syntax != "" {
		elems = append(elems, resp.Bulk("arguments"), argumentDocs(parseSyntax(spec.Syntax)))
	}
	if len(spec.Subs) > 0 {
		elems = append(elems, resp.Bulk("subcommands"), Docs(spec.Subs))
	}
	return resp.Map(elems...)
}

func argumentDocs(list []argument) resp.Reply {
	docs := make([]resp.Reply, len(list))
	for i, a := range list {
		elems := []resp.Reply{resp.Bulk("name"), resp.Bulk(a.name), resp.Bulk("type"), resp.Bulk(a.kind)}
		if a.token != "" {
			elems = append(elems, resp.Bulk("token"), resp.Bulk(a.token))
		}
		var flags []string
		if a.optional {
			flags = append(flags, "optional")
		}
		if a.multiple {
			flags = append(flags, "multiple")
		}
		if a.again {
			flags = append(flags, "multiple_token")
		}
		if len(flags) > 0 {
			elems = append(elems, resp.Bulk("flags"), words(flags))
		}
		if len(a.parts) > 0 {
			elems = append(elems, resp.Bulk("arguments"), argumentDocs(a.parts))
		}
		docs[i] = resp.Map(elems...)
	}
	return resp.Array(docs...)
}

// argument is one argument of a command in COMMAND DOCS. redis-cli builds its
// hints from it.
type argument struct {
	name     string
	kind     string // key, string, integer, pure-token, oneof, block ...
	token    string // the word before the value
	optional bool
	multiple bool
	again    bool // the token repeats with each value
	parts    []argument
}

// parseSyntax parses a row's Syntax, in the notation of Redis's documentation: WORD for a token, word for a value,
// [..] for an optional part, <..> and | for a choice, "x [x ...]" for a repeated argument.
func parseSyntax(syntax string) []argument {
	for _, mark := range []string{"[", "]", "<", ">", "|"} {
		syntax = strings.ReplaceAll(syntax, mark, " "+mark+" ")
	}
	p := syntaxParser{words: strings.Fields(syntax)}
	return p.sequence()
}

type syntaxParser struct{ words []string }

func (p *syntaxParser) peek() string {
	if len(p.words) == 0 {
		return ""
	}
	return p.words[0]
}

func (p *syntaxParser) take() string {
	word := p.peek()
	if word != "" {
		p.words = p.words[1:]
	}
	return word
}

// sequence reads arguments up to a closing bracket; alternatives become a choice.
func (p *syntaxParser) sequence() []argument {
	var list, choices []argument
	chosen := false
	for {
		switch word := p.peek(); word {
		case "", "]", ">":
			if !chosen {
				return list
			}
			return []argument{{name: "choice", kind: "oneof", parts: append(choices, join(list))}}
		case "|":
			p.take()
			choices = append(choices, join(list))
			list, chosen = nil, true
		case "[":
			p.take()
			list = p.optional(list)
		case "<":
			p.take()
			list = append(list, join(p.sequence()))
			p.take()
		case "...":
			p.take()
		default:
			p.take()
			list = p.word(list, word)
		}
	}
}

// optional parses the part in brackets. "x [x ...]" means that x repeats.
func (p *syntaxParser) optional(list []argument) []argument {
	repeats := false
	for _, word := range p.words {
		if word == "]" || word == "[" {
			break
		}
		repeats = repeats || word == "..."
	}
	inner := p.sequence()
	p.take()
	if repeats && len(list) >= len(inner) && len(inner) > 0 && list[len(list)-1].name == inner[len(inner)-1].name {
		start := len(list) - len(inner)
		one := join(append([]argument(nil), list[start:]...))
		one.multiple, one.again = true, one.token != "" && inner[0].token == one.token
		return append(list[:start], one)
	}
	one := join(inner)
	one.optional = true
	return append(list, one)
}

func (p *syntaxParser) word(list []argument, word string) []argument {
	if word != strings.ToUpper(word) || word == strings.ToLower(word) {
		return append(list, argument{name: word, kind: kindOf(word)})
	}
	if next := p.peek(); next != "" && !strings.Contains("[]<>|...", next) && next != strings.ToUpper(next) {
		p.take()
		return append(list, argument{name: next, kind: kindOf(next), token: word})
	}
	return append(list, argument{name: strings.ToLower(word), kind: "pure-token", token: word})
}

// join makes one argument of several.
func join(list []argument) argument {
	if len(list) == 1 {
		return list[0]
	}
	names := make([]string, len(list))
	for i, a := range list {
		names[i] = a.name
	}
	return argument{name: strings.Join(names, "_"), kind: "block", parts: list}
}

// integerNames are the values whose type is integer.
var integerNames = []string{"seconds", "milliseconds", "count", "numkeys", "cursor", "index", "increment", "decrement",
	"offset", "start", "end", "client-id"}

func kindOf(name string) string {
	switch {
	case strings.HasSuffix(name, "key") || name == "source" || name == "destination":
		return "key"
	case name == "pattern":
		return "pattern"
	case strings.HasPrefix(name, "unix-time"):
		return "unix-time"
	case slices.Contains(integerNames, name):
		return "integer"
	}
	return "string"
}
