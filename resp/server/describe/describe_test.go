package describe

import (
	"strings"
	"testing"

	"lockd/resp"
)

// show writes arguments as short as can be: token=name:kind, with ? for what may be left out, * for
// what repeats, + for what repeats with its token, and parts in parentheses.
func show(list []argument) string {
	var all []string
	for _, a := range list {
		text := a.name + ":" + a.kind
		if a.token != "" {
			text = a.token + "=" + text
		}
		for _, mark := range []struct {
			set  bool
			text string
		}{{a.optional, "?"}, {a.multiple, "*"}, {a.again, "+"}, {len(a.parts) > 0, "(" + show(a.parts) + ")"}} {
			if mark.set {
				text += mark.text
			}
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// What rows say of their arguments is read as Redis's documentation means it.
func TestSyntax(t *testing.T) {
	for syntax, want := range map[string]string{
		"":                                "",
		"key value":                       "key:key value:string",
		"key [key ...]":                   "key:key*",
		"[pattern [pattern ...]]":         "pattern:pattern?*",
		"index <ON | OFF>":                "index:integer choice:oneof(ON=on:pure-token OFF=off:pure-token)",
		"[EX seconds | PERSIST]":          "choice:oneof?(EX=seconds:integer PERSIST=persist:pure-token)",
		"[PREFIX p [PREFIX p ...]]":       "PREFIX=p:string?*+",
		"[ID client-id [client-id ...]]":  "ID=client-id:integer?*",
		"key value [key value ...]":       "key_value:block*(key:key value:string)",
		"[LIMIT offset count] source":     "offset_count:block?(LIMIT=offset:integer count:integer) source:key",
		"GET PXAT unix-time-milliseconds": "GET=get:pure-token PXAT=unix-time-milliseconds:unix-time",
	} {
		if got := show(parseSyntax(syntax)); got != want {
			t.Errorf("%s: %s, want %s", syntax, got, want)
		}
	}
}

// A key is used as the part of Access says that it falls in, or as the flags say.
func TestKeyFlags(t *testing.T) {
	for _, c := range []struct {
		spec resp.Spec
		call string
		want string // of the last key
	}{
		{resp.Spec{Flags: resp.Write, Keys: resp.FirstKey}, "INCR a", "RW access update"},
		{resp.Spec{Flags: resp.ReadOnly, Keys: resp.FirstKey}, "GET a", "RO access"},
		{resp.Spec{Group: "transactions", Keys: resp.AllKeys}, "WATCH a b", "RO"},
		{resp.Spec{Flags: resp.PubSub, Keys: resp.AllKeys}, "SSUBSCRIBE a", "not_key"},
		{resp.Spec{Keys: resp.EvalKeys}, "EVAL x 1 a", "RW access update"},
		{resp.Spec{Keys: resp.AllKeys, Access: "OW insert"}, "X a b", "OW insert"},
		{resp.Spec{Keys: resp.AllKeys, Access: "1 OW update; 2- RO access"}, "X a", "OW update"},
		{resp.Spec{Keys: resp.AllKeys, Access: "1 OW update; 2- RO access"}, "X a b c", "RO access"},
		{resp.Spec{Keys: resp.TwoKeys, Access: "1 RO access; 2 OW update"}, "X a b", "OW update"},
		{resp.Spec{Keys: resp.Keys{First: 1, Last: 1, Step: 1, NumAt: 2}}, "X a 1 b", "RO access"},
		{resp.Spec{Keys: resp.FirstKey, Access: "RW access update variable_flags"}, "SET a b", "OW update"},
		{resp.Spec{Keys: resp.FirstKey, Access: "RW access update variable_flags"}, "SET a b GET", "RW access update"},
	} {
		call := resp.Args(strings.Fields(c.call))
		keys, _ := c.spec.Keys.Of(call)
		var got []string
		for _, word := range KeyFlags(&c.spec, call, len(keys)-1).Elems {
			got = append(got, word.Str)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, want %s", c.call, got, c.want)
		}
	}
}
