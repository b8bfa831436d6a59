package main

import (
	"bytes"
	"cmp"
	"log/slog"
	"strings"
	"testing"
)

// A node whose listener differs from the list is told what to write.
func TestOwnAddress(t *testing.T) {
	for _, tt := range []struct {
		listed, listens string
		warns           bool
		write           string // "": where it listens
	}{
		{"127.0.0.1:17001", "127.0.0.1:17001", false, ""},
		{"127.0.0.1:7001", "127.0.0.1:17001", true, ""},
		{"10.0.0.1:17001", "0.0.0.0:17001", false, ""},
		{"10.0.0.1:17001", ":17001", false, ""},
		{"10.0.0.1:17001", "[::]:17001", false, ""},
		{"10.0.0.1:17001", "10.0.0.2:17001", true, ""},
		{"10.0.0.1:17001", "127.0.0.1:17001", true, ""},
		{"node-1:17001", "10.0.0.2:17001", false, ""},
		{"node-1:7001", "10.0.0.2:17001", true, ""},
		{"localhost:17001", "127.0.0.1:17001", false, ""},
		{"127.0.0.1:17001", "127.0.0.1:0", false, ""},
		{"", "127.0.0.1:17001", false, ""},
		{"10.0.0.1:7001", ":17001", true, "10.0.0.1:17001"},
	} {
		var log bytes.Buffer
		c := serveCmd{ID: "n1", PeerListen: tt.listens, members: map[string]string{}}
		if tt.listed != "" {
			c.members["n1"] = tt.listed
		}
		c.warnOfOwnAddress(slog.New(slog.NewTextHandler(&log, nil)))
		warns := strings.Contains(log.String(), "level=WARN") &&
			strings.Contains(log.String(), `write="--peer-listen `+tt.listed+", or n1="+cmp.Or(tt.write, tt.listens)+" in --cluster")
		if warns != tt.warns || !tt.warns && log.Len() > 0 {
			t.Errorf("listed %s, listens at %s: %s", tt.listed, tt.listens, &log)
		}
	}
}
