package resp

import "strings"

// WithHelp adds the subcommand HELP to a container; it answers, in Redis's layout, the syntax and summary of the
// other subcommands. since is the version of Redis that introduced it; answer makes the row's function of a fixed
// reply.
func WithHelp[F any](since string, answer func(Reply) F, container Row[F]) Row[F] {
	container.Subs = append(container.Subs, Row[F]{
		Spec: Spec{
			Name: container.Name + "|help", Arity: 2, Flags: container.Flags | Loading | Stale,
			Group: container.Group, Since: since, Summary: "Show helpful text about the different subcommands",
		},
		Run: answer(help(&container)),
	})
	return container
}

func help[F any](container *Row[F]) Reply {
	name := strings.ToUpper(container.Name)
	lines := []Reply{Status(name + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")}
	add := func(call, summary string) {
		lines = append(lines, Status(strings.TrimSpace(call)), Status("    "+summary))
	}
	if container.Arity == -1 {
		add("(no subcommand)", container.Summary)
	}
	for i := range container.Subs {
		sub := &container.Subs[i].Spec
		add(strings.TrimPrefix(strings.ToUpper(sub.Name), name+"|")+" "+sub.Syntax, sub.Summary)
	}
	add("HELP", "Print this help.")
	return Array(lines...)
}
