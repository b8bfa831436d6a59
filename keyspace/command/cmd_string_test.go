package command

import (
	"strings"
	"testing"
)

// overlay is compared with the obvious way to write it.
func TestOverlay(t *testing.T) {
	naive := func(s string, offset int, patch string) string {
		b := make([]byte, max(len(s), offset+len(patch)))
		copy(b, s)
		copy(b[offset:], patch)
		return string(b)
	}
	for _, s := range []string{"", "a", "hello world", strings.Repeat("x", 5000)} {
		for _, offset := range []int{0, 1, 5, 11, 4095, 4096, 4097, 5000, 10000} {
			for _, patch := range []string{"p", "patch", strings.Repeat("y", 5000)} {
				if got, want := overlay(s, offset, patch), naive(s, offset, patch); got != want {
					t.Errorf("overlay(%d bytes, %d, %d bytes): %d bytes, want %d", len(s), offset, len(patch), len(got), len(want))
				}
			}
		}
	}
}
