package keyspace

import (
	"runtime"
	"testing"
	"weak"
)

// Nothing keeps a command's context beyond its command, since the machine uses the same one for the next: no field, closure,
// channel or variable. After each line of every transcript the machine moves to another place in memory; whatever still
// points to the context of the line, or to its machine, keeps the place of before alive.
func TestNothingKeepsAContext(t *testing.T) {
	for _, file := range transcriptFiles(t) {
		stage := newStage(t)
		left := map[int]weak.Pointer[Machine]{} // by line
		for _, b := range readTranscript(t, file) {
			for _, s := range b.steps {
				stage.step(s)
				moved := new(Machine)
				*moved = *stage.m
				moved.running = running{}
				left[s.line] = weak.Make(stage.m)
				stage.m = moved
			}
			stage.events = nil
			clear(stage.ended)
		}
		runtime.GC()
		for line, machine := range left {
			if machine.Value() != nil {
				t.Errorf("%s:%d: something keeps the context of this command", file, line)
			}
		}
		runtime.KeepAlive(stage)
	}
}
