package cluster

import (
	"runtime"
	"runtime/debug"
	"strings"
)

// ownArch is this build's architecture, as nodes compare it.
var ownArch = func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return runtime.GOARCH
	}
	return archName(runtime.GOARCH, info.Settings)
}()

// archName is GOARCH, with the level that the build was made for unless that is the
// lowest: "amd64", "amd64v3". Scripts on all nodes must compute the same, to the last bit. For a
// higher level the compiler may use other instructions: from amd64's v3 on it joins a
// product and a sum into one rounding, in Go's sine and logarithm too. An option behind the
// level, "v8.0,lse", brings no instruction for such numbers.
func archName(goarch string, settings []debug.BuildSetting) string {
	for _, s := range settings {
		if s.Key != "GO"+strings.ToUpper(goarch) {
			continue
		}
		level, _, _ := strings.Cut(s.Value, ",")
		if level != "v1" && level != "v8.0" {
			return goarch + level
		}
	}
	return goarch
}
