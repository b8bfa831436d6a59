package meter

import (
	"testing"

	"lockd/resp"
)

// A request that has done too much gets an error; what it did counts for its entry, and not for the next request.
func TestRequestsCountForTheirEntry(t *testing.T) {
	var m Meter
	m.BeginEntry(0)
	for i := range 2 {
		m.BeginRequest(0)
		if why := m.Exhausted(); why != "" {
			t.Fatalf("request %d: %s before it has begun", i, why)
		}
		m.Spend(WorkMax)
		if m.Exceeded() || m.Affords(1) || m.Exhausted() != ErrWork {
			t.Fatalf("request %d: %d of work, and %q", i, m.Work(), m.Exhausted())
		}
		if m.EntryExhausted(0) != (i == 1) {
			t.Fatalf("request %d: the entry has done %d", i, m.EntryWork())
		}
		m.EndRequest()
	}
	m.BeginEntry(0)
	if m.EntryExhausted(0) || !m.EntryExhausted(entryGrowthBytesMax+1) {
		t.Error("the next entry starts with the counts of the last one")
	}
}

// Growth counts from the beginning of the request.
func TestGrowth(t *testing.T) {
	var m Meter
	m.BeginRequest(1000)
	if why := m.Grown(1000 + GrowthBytesMax); why != "" {
		t.Error(why)
	}
	if why := m.Grown(1001 + GrowthBytesMax); why != ErrGrowth {
		t.Errorf("%q", why)
	}
}

// An entry pays for a program once, but again for one that was not kept, and for all once it has paid for too many.
func TestProgramsArePaidOnce(t *testing.T) {
	var m Meter
	m.BeginEntry(0)
	m.BeginRequest(0)
	pays := func(key string) int64 {
		before := m.Work()
		m.AffordsProgram(key, 10)
		return m.Work() - before
	}
	const price = CompileWork + 10*SourceWork
	if first, again := pays("a"), pays("a"); first != price || again != 0 {
		t.Errorf("%d, then %d", first, again)
	}
	if m.ForgetProgram("a"); pays("a") != price {
		t.Error("a program that was not kept was free")
	}
	for i := range compiledMax {
		pays(string(rune('b' + i)))
	}
	if pays("a") != price {
		t.Error("a program was free after too many others")
	}
	if m.BeginEntry(0); pays("a") != price {
		t.Error("a program was free in the next entry")
	}
}

// However many steps a script may take, one may take them all; its entry is charged their full work.
func TestSteps(t *testing.T) {
	for _, steps := range []int64{1000, 10_000_000, 1_000_000_000} {
		var m Meter
		m.BeginRequest(0)
		lim := m.BeginScript(resp.ScriptLimits{Steps: steps}, StepWorkOf(steps))
		if lim.Steps != steps || lim.StepsOf != steps {
			t.Errorf("%+v of %d steps", lim, steps)
		}
		m.SpendSteps(900)
		if work := m.TakeWork(); work != 900*StepWork {
			t.Errorf("900 steps of %d count for %d", steps, work)
		}
	}
}
