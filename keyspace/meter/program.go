package meter

import "lockd/resp"

// Programs that an entry has paid for are certain to stay compiled up to these bounds; beyond them it pays again. They
// are far below those of luavm, which counts what a program takes.
const (
	compiledMax      = 128
	compiledBytesMax = 128 << 10
)

// AffordsProgram counts the work of compiling a program that the entry needs for the first time, and reports whether
// the request may go on. Some nodes have it compiled already and some have not, so that must not matter.
func (m *Meter) AffordsProgram(key string, sourceBytes int) bool {
	sourceBytes = min(sourceBytes, 64<<10) // a longer one is refused at once
	if _, paid := m.compiled[key]; paid {
		return true
	}
	switch {
	case m.compiled == nil:
		m.compiled = map[string]struct{}{}
	case len(m.compiled) >= compiledMax || m.compiledBytes+sourceBytes > compiledBytesMax:
		clear(m.compiled)
		m.compiledBytes = 0
	}
	m.compiled[key] = struct{}{} // it may alias the entry, and lives no longer
	m.compiledBytes += sourceBytes
	return m.Affords(CompileWork + SourceWork*int64(sourceBytes))
}

// ForgetProgram has the next use of a program that is not kept pay again.
func (m *Meter) ForgetProgram(key string) { delete(m.compiled, key) }

// StepWorkOf returns the work of a step where a script may take a number of them: one script may take all its steps
// within the work of a request.
func StepWorkOf(steps int64) int64 { return min(StepWork, WorkMax/steps) }

// BeginScript returns the limits lim for a script that begins now, with no more steps than the request's work allows. A
// step counts for stepWork.
func (m *Meter) BeginScript(lim resp.ScriptLimits, stepWork int64) resp.ScriptLimits {
	m.stepWork = stepWork
	lim.StepsOf = lim.Steps
	lim.Steps = m.StepsLeft(lim.Steps)
	return lim
}

// StepsLeft limits a number of steps to what the request's work allows.
func (m *Meter) StepsLeft(steps int64) int64 {
	return min(steps, max(0, WorkMax-m.request.work)/m.stepWork)
}

// SpendSteps counts steps of a script. The entry is always charged their full work.
func (m *Meter) SpendSteps(steps int64) {
	m.Spend(m.stepWork * steps)
	m.request.moreWork += (StepWork - m.stepWork) * steps
}

// Refund takes back, of the work of a command that a script has called, what the steps of the call have paid for: the
// request had done some work before the command.
func (m *Meter) Refund(before int64) {
	m.request.work = max(before, m.request.work-calledSteps*m.stepWork)
}

// WorkMet reports which limit ended a script that began with lim: true for the work of its request, false for the steps
// that it took itself. It picks the error that helps the user.
func WorkMet(lim resp.ScriptLimits, steps, left int64) bool {
	return left == 0 && steps < lim.StepsOf/2
}
