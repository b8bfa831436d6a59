package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"lockd/cluster"
	"lockd/keyspace"
	"lockd/luavm"
)

// version is lockd's own version, that of the tag it was built from. INFO reports it as
// lockd_release, beside the redis_version that clients select their code paths by.
var version = versionOf(buildInfo())

// unreleased is the version of a build without a tag: the next release, in development.
const unreleased = "0.1.0-dev"

type versionCmd struct {
	Verbose bool `help:"Say also what it was built of, and what nodes must have in common: formats, protocol and rules."`
}

// run prints one line, and with --verbose one for each of the rest.
func (c versionCmd) run(_ context.Context, stdout, _ io.Writer) error {
	info := buildInfo()
	_, err := fmt.Fprintf(stdout, "lockd %s%s %s %s/%s\n",
		version, revision(info), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	if !c.Verbose {
		return err
	}
	for _, line := range append(builtFrom(info), inCommon()...) {
		if _, err = fmt.Fprintf(stdout, "%-*s %s\n", versionColumn, line[0], line[1]); err != nil {
			break
		}
	}
	return err
}

// versionColumn is the width of the longest name that version --verbose shows.
const versionColumn = len("names-for-scripts")

// buildInfo returns the build information in the binary; empty if there is none.
func buildInfo() *debug.BuildInfo {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return &debug.BuildInfo{}
	}
	return info
}

// versionOf is the version that Go has made of the tag: of the last one before the commit, if that has none.
func versionOf(info *debug.BuildInfo) string {
	tagged, ok := strings.CutPrefix(info.Main.Version, "v")
	if !ok || strings.HasPrefix(tagged, "0.0.0-") { // "(devel)", or there is no tag
		return unreleased
	}
	return tagged
}

func buildSetting(info *debug.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

// revision returns the commit that the binary was built from, if known.
func revision(info *debug.BuildInfo) string {
	if commit := buildSetting(info, "vcs.revision"); len(commit) >= 12 {
		return " (" + commit[:12] + ")"
	}
	return ""
}

// builtFrom lists the sources: the commit, and the modules that Raft and its log are made of, in
// whose messages and files two nodes must agree too.
func builtFrom(info *debug.BuildInfo) (lines [][2]string) {
	commit := "unknown: it was built without version control"
	if revision := buildSetting(info, "vcs.revision"); revision != "" {
		commit = revision + " of " + buildSetting(info, "vcs.time")
		if buildSetting(info, "vcs.modified") == "true" {
			commit += ", changed since"
		}
	}
	lines = append(lines, [2]string{"commit", commit}, [2]string{"go", info.GoVersion})
	for _, m := range info.Deps {
		for _, prefix := range []string{"github.com/hashicorp/raft", "github.com/hashicorp/go-msgpack", "go.etcd.io/bbolt"} {
			if strings.HasPrefix(m.Path, prefix) {
				lines = append(lines, [2]string{"module", m.Path + " " + m.Version})
			}
		}
	}
	return lines
}

// inCommon lists what the nodes of one cluster must have in common.
func inCommon() (lines [][2]string) {
	for _, f := range cluster.Versions(keyspace.New(luavm.New())) {
		lines = append(lines, [2]string{f.Name, f.Value})
	}
	return lines
}
