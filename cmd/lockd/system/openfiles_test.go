package system

import (
	"bytes"
	"io"
	"log/slog"
	"math"
	"strings"
	"syscall"
	"testing"
)

// As those of a node.
const (
	clientsDefault = 10000
	filesReserved  = 256
)

// The number of clients is fitted to the limit of open files, which is raised first.
func TestSeatsFitFiles(t *testing.T) {
	const need = clientsDefault + filesReserved
	for name, tt := range map[string]struct {
		cur, hard uint64 // the limit; hard is the most that can be set
		want      int64  // clients
		says      string
	}{
		"enough":        {need + 5, need + 5, clientsDefault + 5, ""},
		"wants more":    {need + 5, need + 5, clientsDefault + 5, "You requested maxclients of 20000 requiring at least 20256 max file descriptors."},
		"can be raised": {1024, need, clientsDefault, "Increased maximum number of open files to 10256 (it was originally set to 1024)."},
		"too low":       {336, 336, 80, "maxclients has been reduced to 80 to compensate for low ulimit"},
		"far too low":   {256, 256, 0, "your current 'ulimit -n' of 256 is not enough for the server to start: increase your open file limit to at least 10256"},
	} {
		t.Run(name, func(t *testing.T) {
			log := &bytes.Buffer{}
			f := FileLimit{
				get: func(l *rlimit) error { l.Cur, l.Max = tt.cur, tt.cur; return nil },
				set: func(l *rlimit) error {
					if l.Cur > tt.hard {
						return syscall.EPERM
					}
					tt.cur = l.Cur
					return nil
				},
			}
			wanted := int64(clientsDefault)
			if name == "wants more" {
				wanted *= 2
			}
			most, err := f.Fit(wanted, filesReserved, slog.New(slog.NewTextHandler(log, nil)))
			if err != nil {
				_, _ = io.WriteString(log, err.Error())
				most = func() int64 { return 0 }
			}
			if got := most(); got != tt.want || !strings.Contains(log.String(), tt.says) || tt.says == "" && log.String() != "" {
				t.Errorf("%d clients; the log:\n%s", got, log)
			}
		})
	}
}

// The number of clients follows a limit that changes while the process runs.
func TestSeatsFollowFiles(t *testing.T) {
	const enough = clientsDefault + filesReserved
	now, failure := uint64(enough), error(nil)
	f := FileLimit{get: func(l *rlimit) error { l.Cur, l.Max = now, enough; return failure }}
	most, err := f.Fit(clientsDefault, filesReserved, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		limit   uint64
		failure error
		want    int64
	}{
		{filesReserved + 7, nil, 7},
		{filesReserved - 1, nil, 0},
		{1, syscall.EPERM, 0}, // as it was
		{enough, nil, clientsDefault},
		{math.MaxUint64, nil, 1<<30 - filesReserved},
	} {
		if now, failure = step.limit, step.failure; most() != step.want {
			t.Errorf("%d clients with %d files (%v), want %d", most(), step.limit, failure, step.want)
		}
	}
}
