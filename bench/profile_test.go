package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"testing"
)

// What nodes answer becomes one profile; a refusal becomes an error, and no file.
func TestProfilesAreSavedAndMerged(t *testing.T) {
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); r.URL.Path != "/debug/pprof/allocs" || password != profilePassword {
			http.Error(w, "not you", http.StatusForbidden)
			return
		}
		if err := pprof.Lookup("allocs").WriteTo(w, 0); err != nil {
			t.Error(err)
		}
	}))
	defer node.Close()
	addr, dir := strings.TrimPrefix(node.URL, "http://"), t.TempDir()

	refused := filepath.Join(dir, "refused")
	if err := save(t.Context(), addr, "/other", refused); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("a refusal is answered: %v", err)
	}
	if _, err := os.Stat(refused); err == nil {
		t.Error("a refusal was saved")
	}
	files := []string{filepath.Join(dir, "a"), filepath.Join(dir, "b")}
	for _, file := range files {
		if err := save(t.Context(), addr, "/debug/pprof/allocs", file); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "out")
	if err := merge(t.Context(), files, out); err != nil {
		t.Fatal(err)
	}
	if merged, err := os.Stat(out); err != nil || merged.Size() == 0 {
		t.Errorf("nothing was merged: %v", err)
	}
	if err := merge(t.Context(), []string{filepath.Join(dir, "absent")}, out); err == nil {
		t.Error("a profile that is not there was merged")
	}
}
