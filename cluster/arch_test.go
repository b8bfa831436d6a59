package cluster

import (
	"runtime/debug"
	"testing"
)

// Builds for different levels of one architecture have different names, and those for the
// lowest the name that they always had.
func TestArchName(t *testing.T) {
	for _, c := range []struct{ goarch, key, value, want string }{
		{"amd64", "GOAMD64", "v1", "amd64"},
		{"amd64", "GOAMD64", "v3", "amd64v3"},
		{"amd64", "GOARM64", "v9.0", "amd64"}, // another architecture's
		{"amd64", "GOOS", "linux", "amd64"},
		{"arm64", "GOARM64", "v8.0", "arm64"},
		{"arm64", "GOARM64", "v8.0,lse", "arm64"},
		{"arm64", "GOARM64", "v9.0,crypto", "arm64v9.0"},
	} {
		settings := []debug.BuildSetting{{Key: "-compiler", Value: "gc"}, {Key: c.key, Value: c.value}}
		if got := archName(c.goarch, settings); got != c.want {
			t.Errorf("%s with %s=%s is %q, want %q", c.goarch, c.key, c.value, got, c.want)
		}
	}
}
