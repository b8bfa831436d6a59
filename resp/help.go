package resp

// Help is the answer of a container's HELP in Redis's layout: what its subcommands are
// called with, and below each, indented, what it does. Redis says it in other words than in
// COMMAND DOCS, so it cannot come from the rows.
func Help(container string, lines ...string) Reply {
	elems := make([]Reply, 0, len(lines)+3)
	elems = append(elems, Status(container+" <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"))
	for _, line := range lines {
		elems = append(elems, Status(line))
	}
	return Array(append(elems, Status("HELP"), Status("    Prints this help."))...)
}

// ConfigHelp is the answer of CONFIG HELP, to a client and to a script.
func ConfigHelp() Reply {
	return Help("CONFIG",
		"GET <pattern>",
		"    Return parameters matching the glob-like <pattern> and their values.",
		"SET <directive> <value>",
		"    Set the configuration <directive> to <value>.",
		"RESETSTAT",
		"    Reset statistics reported by the INFO command.",
		"REWRITE",
		"    Rewrite the configuration file.")
}
