package command

import (
	"lockd/resp"
	"lockd/resp/acl"
)

// A command has two halves. Parse, of its row, reads the arguments and looks at nothing else: a node can call it before
// anything is logged. Run, of the call that Parse returns, does the work on the state.

// row is a row of the table: the Spec of a command and its parser.
type row struct {
	resp.Spec
	Parse parser
	Subs  []row // subcommands; if there are any, Parse is not used
}

// parser reads the arguments of a call, whose number is right by the arity of the row. The error says what is wrong
// with them whatever the state is; the call is nil then. It is called by any goroutine, and reads no clock and no
// state.
type parser func(args resp.Args) (call, error)

// call is one call of a command, whose arguments were read. It runs once. Its strings may alias a log entry, so what
// Run keeps of them is cloned (the writers of Ctx do).
type call interface {
	Run(c *Ctx) resp.Reply
}

// renewing is a call that may change no more than leases, though its command may let the state grow. A holder
// keeps its lock where memory, or a disk, is full.
type renewing interface {
	call
	renews(c *Ctx) bool // as things are
}

// renews reports whether a call changes no more than leases, as things are.
func renews(c *Ctx, req call) bool {
	r, ok := req.(renewing)
	return ok && r.renews(c)
}

// perform runs a call that was parsed, or answers what is wrong with it.
func perform(c *Ctx, req call, wrong error) resp.Reply {
	if wrong != nil {
		return resp.Fail(wrong)
	}
	return req.Run(c)
}

// bytesOf returns how long all arguments are together.
func bytesOf(args resp.Args) (n int) {
	for _, a := range args {
		n += len(a)
	}
	return n
}

// wrongArity returns the error of a number of arguments that the row's arity lets pass.
func wrongArity(command string) error { return resp.Error(resp.WrongArity(command).Str) }

// always answers with the same reply.
func always(r resp.Reply) parser {
	return func(resp.Args) (call, error) { return fixed(r), nil }
}

type fixed resp.Reply

func (r fixed) Run(*Ctx) resp.Reply { return resp.Reply(r) }

// ofKey returns the parser of a command on one key, without other arguments.
func ofKey(run func(c *Ctx, key string) resp.Reply) parser {
	return func(args resp.Args) (call, error) { return &keyCall{args[1], run}, nil }
}

type keyCall struct {
	key string
	run func(c *Ctx, key string) resp.Reply
}

func (r *keyCall) Run(c *Ctx) resp.Reply { return r.run(c, r.key) }

// ofKeyAnd returns the parser of a command on one key and a text that is right whatever it is.
func ofKeyAnd(run func(c *Ctx, key, text string) resp.Reply) parser {
	return func(args resp.Args) (call, error) { return &keyTextCall{args[1], args[2], run}, nil }
}

type keyTextCall struct {
	key, text string
	run       func(c *Ctx, key, text string) resp.Reply
}

func (r *keyTextCall) Run(c *Ctx) resp.Reply { return r.run(c, r.key, r.text) }

// ofKeyAndMany returns the parser of a command on one key and texts that are right whatever they are.
func ofKeyAndMany(run func(c *Ctx, key string, texts []string) resp.Reply) parser {
	return func(args resp.Args) (call, error) { return &keyTextsCall{args[1], args[2:], run}, nil }
}

type keyTextsCall struct {
	key   string
	texts []string
	run   func(c *Ctx, key string, texts []string) resp.Reply
}

func (r *keyTextsCall) Run(c *Ctx) resp.Reply { return r.run(c, r.key, r.texts) }

// ofMany returns the parser of a command whose arguments are right whatever they are; most are keys.
func ofMany(run func(c *Ctx, texts []string) resp.Reply) parser {
	return func(args resp.Args) (call, error) { return &textsCall{args[1:], run}, nil }
}

type textsCall struct {
	texts []string
	run   func(c *Ctx, texts []string) resp.Reply
}

func (r *textsCall) Run(c *Ctx) resp.Reply { return r.run(c, r.texts) }

// ofNothing returns the parser of a command without arguments.
func ofNothing(run func(c *Ctx) resp.Reply) parser {
	return func(resp.Args) (call, error) { return bareCall(run), nil }
}

type bareCall func(c *Ctx) resp.Reply

func (run bareCall) Run(c *Ctx) resp.Reply { return run(c) }

// ofSub returns the parser of a subcommand: parse reads the arguments behind the name of the container.
func ofSub(parse parser) parser {
	return func(args resp.Args) (call, error) { return parse(args[1:]) }
}

// newTable joins families of rows.
func newTable(families ...[]row) *resp.Table[parser] {
	var rows []resp.Row[parser]
	for _, family := range families {
		rows = append(rows, tableRows(family)...)
	}
	return resp.NewTable(rows)
}

// tableRows are rows as a table keeps them: Run of such a row is its parser.
func tableRows(rows []row) (kept []resp.Row[parser]) {
	for _, r := range rows {
		kept = append(kept, resp.Row[parser]{Spec: r.Spec, Run: r.Parse, Subs: tableRows(r.Subs)})
	}
	return kept
}

// rowOf returns the row that another package has made.
func rowOf(kept resp.Row[parser]) row {
	r := row{Spec: kept.Spec, Parse: kept.Run}
	for _, sub := range kept.Subs {
		r.Subs = append(r.Subs, rowOf(sub))
	}
	return r
}

// withHelp adds the subcommand HELP to a container; since is the version of Redis that introduced it.
func withHelp(since string, container row) row {
	return rowOf(resp.WithHelp(since, always, tableRows([]row{container})[0]))
}

// commandSet has the commands of a level, for scripts and for the rules of users.
type commandSet struct {
	table     *resp.Table[parser]
	elsewhere *resp.Table[struct{}]
	known     *acl.Commands
}

// commandSets has the commands of each level, by the level; init makes them. Connections use the last one.
var commandSets []*commandSet

// commandsAt returns the commands of a level.
func commandsAt(level int) *commandSet { return commandSets[level] }
