package group

import (
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Each error of Raft is logged once a minute, except errors of connections that this node has closed itself.
func TestErrorsOfRaft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b strings.Builder
		log := NewLog("raft: ", slog.New(slog.NewTextHandler(&b, nil)))
		closed := &net.OpError{Op: "read", Net: "tcp", Err: net.ErrClosed}
		for range 3 {
			log.Error("failed to decode incoming command", "error", closed)
			log.Error("failed to decode incoming command", "error", errors.New("unknown rpc type 71"))
			time.Sleep(20 * time.Second)
		}
		if got := b.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "unknown rpc type 71") {
			t.Errorf("within a minute: %q", got)
		}
		time.Sleep(time.Minute)
		log.Error("failed to decode incoming command", "error", errors.New("unknown rpc type 71"))
		if got := b.String(); strings.Count(got, "\n") != 2 {
			t.Errorf("after it: %q", got)
		}
	})
}
