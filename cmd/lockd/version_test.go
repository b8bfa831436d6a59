package main

import (
	"bytes"
	"regexp"
	"runtime/debug"
	"slices"
	"testing"
)

// The version is the tag's; a build of no tag does not claim to be a release.
func TestVersionOf(t *testing.T) {
	for given, want := range map[string]string{
		"v0.1.0":                               "0.1.0",
		"v1.2.3-rc.1":                          "1.2.3-rc.1",
		"v0.1.1-0.20261123215500-1b30aa2cf5d9": "0.1.1-0.20261123215500-1b30aa2cf5d9",
		"v0.1.0+dirty":                         "0.1.0+dirty",
		"v0.0.0-20261123215500-1b30aa2cf5d9":   unreleased,
		"(devel)":                              unreleased,
		"":                                     unreleased,
	} {
		if got := versionOf(&debug.BuildInfo{Main: debug.Module{Version: given}}); got != want {
			t.Errorf("%q is version %s, want %s", given, got, want)
		}
	}
}

// version --verbose lists the parts of the binary, and the versions that nodes of a cluster must share.
func TestVersionVerbose(t *testing.T) {
	var out, errs bytes.Buffer
	if status := run([]string{"version", "--verbose"}, nil, &out, &errs); status != exitOK {
		t.Fatalf("exit status %d: %s", status, &errs)
	}
	for _, want := range []string{
		`^lockd ` + regexp.QuoteMeta(version) + ` go1\.\d+`,
		`\ncommit +unknown`, // of a test binary
		`\ngo +go1\.\d+`,
		`\npeer protocol +\d+\n`, `\nlog entry +\d+\n`, `\nsnapshot +\d+\n`, `\nimage +\d+\n`,
		`\nrules +[0-9a-f]{16}\n`, `\narchitecture +(amd64|arm64)`,
	} {
		if !regexp.MustCompile(want).Match(out.Bytes()) {
			t.Errorf("there is no %s in\n%s", want, &out)
		}
	}
}

// The commit, and the modules in whose messages nodes must agree.
func TestBuiltFrom(t *testing.T) {
	got := builtFrom(&debug.BuildInfo{
		GoVersion: "go1.26.8",
		Deps: []*debug.Module{
			{Path: "github.com/alecthomas/kong", Version: "v1.17.0"},
			{Path: "github.com/hashicorp/raft", Version: "v1.7.3"},
			{Path: "github.com/hashicorp/raft-wal", Version: "v0.4.2"},
			{Path: "go.etcd.io/bbolt", Version: "v1.5.0"},
		},
		Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "1b30aa2cf5d9"}, {Key: "vcs.time", Value: "2026-11-23T21:55:00Z"},
			{Key: "vcs.modified", Value: "true"},
		},
	})
	want := [][2]string{
		{"commit", "1b30aa2cf5d9 of 2026-11-23T21:55:00Z, changed since"}, {"go", "go1.26.8"},
		{"module", "github.com/hashicorp/raft v1.7.3"}, {"module", "github.com/hashicorp/raft-wal v0.4.2"},
		{"module", "go.etcd.io/bbolt v1.5.0"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}
