package main

import "testing"

// What is written of a suite replaces its section alone.
func TestSectionOf(t *testing.T) {
	const sections = "\nlegend\n\n### shell\n\nran\n\n| a |\n\n### go\n\nran too\n"
	for name, want := range map[string]string{
		"shell": "\n### shell\n\nran\n\n| a |\n",
		"go":    "\n### go\n\nran too\n",
		"rust":  "",
	} {
		if got := sectionOf(sections, &suite{name: name}); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
