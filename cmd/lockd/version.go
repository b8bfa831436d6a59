package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
)

// version is lockd's own version. INFO reports it as lockd_version, beside the
// redis_version that clients select their code paths by.
const version = "0.1.0"

type versionCmd struct{}

func (versionCmd) run(_ context.Context, stdout, _ io.Writer) error {
	_, err := fmt.Fprintf(stdout, "lockd %s%s %s %s/%s\n",
		version, revision(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

// revision is the commit the binary was built from, where the build knows it.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return " (" + s.Value[:12] + ")"
		}
	}
	return ""
}
