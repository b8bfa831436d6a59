// The Go suite: see ../doc.go for what it is told and what it prints.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// libraries is the table of what is tried.
var libraries = slices.Concat(goRedis, rueidisClients, redigoClients, locks)

// library is a client in one mode.
type library struct {
	name, module string // module: whose version is reported
	mode         string
	scenes       []scene
}

// scene is one thing that a library shows. Its error is its failure.
type scene struct {
	name string
	show func(ctx context.Context) error
}

// noScene is a scene's way to say that the library has nothing to show.
type noScene string

func (n noScene) Error() string { return string(n) }

// silent keeps go-redis from reporting every failed dial: the scenes kill servers.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func main() {
	redis.SetLogger(silent{})
	failed := false
	only := os.Args[1:] // names of libraries; none: all
	for _, l := range libraries {
		if len(only) > 0 && !slices.Contains(only, l.name) {
			continue
		}
		for _, s := range l.scenes {
			failed = !l.run(s) || failed
		}
	}
	if failed {
		os.Exit(1)
	}
}

// run shows one scene and prints its result.
func (l library) run(s scene) (ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), sceneMax)
	defer cancel()
	err := s.show(ctx)
	verdict, words := "ok", ""
	if none, is := err.(noScene); is {
		verdict, words = "none", string(none)
	} else if err != nil {
		verdict, words = "fail", strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	fmt.Println("RESULT", l.name, version(l.module), l.mode, s.name, verdict, words)
	return verdict != "fail"
}

// version is that of a module in this build.
func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, m := range info.Deps {
		if m.Path == module {
			return m.Version
		}
	}
	return "?"
}
