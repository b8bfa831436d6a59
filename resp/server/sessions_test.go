package server_test

import (
	"path/filepath"
	"strings"
	"testing"

	"lockd/clustertest"
)

// Sessions over a real machine, in virtual time, each told in a transcript of package clustertest: what one client
// sends, and what another notices of it. What a connection carries byte for byte is in testdata/*.txt (TestTranscripts).
func TestSessions(t *testing.T) {
	files, err := filepath.Glob("testdata/sessions/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { clustertest.Run(t, file) })
	}
}
