package resp

// Script is a script as EVAL brings it.
type Script struct {
	SHA    string // SHA1 of Source, 40 lower-case hex digits
	Source string
}

// ScriptLimits bound one run of a script. They are replicated settings: the same
// on every node at every entry of the log.
type ScriptLimits struct {
	Steps    int64 // instructions and library work, in steps
	MemBytes int64 // growth of strings and tables, in bytes
}
