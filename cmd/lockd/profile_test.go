package main

import (
	"net/http"
	"strings"
	"testing"
)

// A profile needs the password, if there is one.
func TestProfile(t *testing.T) {
	t.Parallel()
	p := startSingle(t, append(consoleFlag(t), "--requirepass", "hunter2")...)
	for _, tt := range []struct {
		path, password string
		status         int
		text           string
	}{
		{"/debug/pprof/goroutine?debug=1", "hunter2", http.StatusOK, "goroutine profile: total "},
		{"/debug/pprof/", "hunter2", http.StatusOK, "heap"},
		{"/debug/pprof/cmdline", "hunter2", http.StatusNotFound, ""},
		{"/debug/pprof/goroutine?debug=1", "wrong", http.StatusUnauthorized, ""},
		{"/debug/pprof/", "", http.StatusUnauthorized, ""},
	} {
		status, text, err := p.browse(http.MethodGet, tt.path, tt.password, nil)
		if err != nil || status != tt.status || !strings.Contains(text, tt.text) || strings.Contains(text, "hunter2") {
			t.Errorf("%s: status %d, %v\n%s", tt.path, status, err, text)
		}
	}
	open := startSingle(t, consoleFlag(t)...)
	if status, text, err := open.browse(http.MethodGet, "/debug/pprof/heap", "any", nil); err != nil || status != http.StatusForbidden {
		t.Errorf("without a password: status %d, %v\n%s", status, err, text)
	}
}
