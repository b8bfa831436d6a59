package keyspace

import (
	"bytes"
	"testing"

	"lockd/resp"
)

// The machine keeps no string of a request: they alias an entry of the log, which
// would then stay in memory whole. Every word that a transcript ever sends comes in a
// buffer that is overwritten afterwards; what was kept of it would show.
func TestNothingKeptAliasesTheEntry(t *testing.T) {
	n := int64(0)
	for _, file := range transcriptFiles(t) {
		m, twin := New(fakeScripts{}), New(fakeScripts{}) // what a file has set must not refuse what the next one sends
		for _, b := range readTranscript(t, file) {
			for _, s := range b.steps {
				n++
				req := resp.Request{Cmds: []resp.Cmd{{DB: int(n % 2), Args: s.words}}}
				entry := resp.AppendRequest(nil, req)
				d := resp.NewDecoder(entry)
				alias := d.Request()
				if err := d.Err(); err != nil {
					t.Fatal(err)
				}
				m.Apply(at(n), []resp.Request{alias})
				for i := range entry {
					entry[i] = '#'
				}
				twin.Apply(at(n), []resp.Request{req})
			}
		}
		if !bytes.Equal(image(t, m), image(t, twin)) {
			t.Fatalf("after %s the state holds on to what is no longer there", file)
		}
	}
}
