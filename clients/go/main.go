// The Go suite: ../doc.go describes its environment and its output.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// groups is the table of the scenes. The leader dies once per group: a busy machine under plain clients would count
// as delay of the servers if delays are judged.
func groups() [][]library {
	plain := slices.Concat(goRedis, rueidisClients, redigoClients)
	if safetyOnly {
		return [][]library{slices.Concat(plain, locks)}
	}
	return [][]library{plain, locks}
}

// library is a client in one mode.
type library struct {
	name, module string // module: whose version is reported
	mode         string
	scenes       []scene
}

// scene is one test of a library. An error is its failure. A scene that kills runs during a death of the leaders;
// death is nil for others. Words are printed on success.
type scene struct {
	name  string
	kills bool
	show  func(ctx context.Context, d *death, ready func()) (words string, err error)
}

// calm makes a scene that does not disturb other scenes.
func calm(name string, show func(ctx context.Context) error) scene {
	return scene{name, false, func(ctx context.Context, _ *death, _ func()) (string, error) { return "", show(ctx) }}
}

// noScene is the error of a scene that does not apply to the library.
type noScene string

func (n noScene) Error() string { return string(n) }

// silent keeps go-redis from reporting every failed dial: the scenes kill servers.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// sideBySide returns how many calm scenes run at the same time. They mostly wait; if delays are judged, one must not
// delay another.
func sideBySide() int {
	if safetyOnly {
		return 8
	}
	return 3
}

func main() {
	redis.SetLogger(silent{})
	passed := true
	only := os.Args[1:] // names of libraries; none: all
	for _, group := range groups() {
		quiet, deadly := parts(group, only)
		passed = together(quiet, sideBySide(), nil) && passed
		passed = die(deadly) && passed
	}
	if !safetyOnly { // they take long, or show nothing but how long something takes
		alone, _ := parts(slices.Concat(clockScenes, resumers), only)
		passed = together(alone, 1, nil) && passed
	}
	if !passed {
		os.Exit(1)
	}
}

// parts returns the scenes of the named libraries, or of all without names: the calm ones, and those that need a
// death of the leaders.
func parts(libraries []library, names []string) (quiet, deadly []part) {
	for _, l := range libraries {
		if len(names) > 0 && !slices.Contains(names, l.name) {
			continue
		}
		for _, s := range l.scenes {
			if onlyScene != "" && s.name != onlyScene {
				continue
			}
			if s.kills {
				deadly = append(deadly, part{l, s})
			} else {
				quiet = append(quiet, part{l, s})
			}
		}
	}
	return quiet, deadly
}

// die plays the scenes in which the leaders die.
func die(parts []part) (passed bool) {
	if len(parts) == 0 {
		return true
	}
	d := newDeath(len(parts))
	if isLockd {
		go d.strike()
	}
	passed = together(parts, len(parts), d)
	if err := d.heal(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return false
	}
	return passed
}

// together runs parts, up to atOnce at a time, and prints their results in order.
func together(parts []part, atOnce int, d *death) (passed bool) {
	lines := make([]chan string, len(parts))
	for i := range lines {
		lines[i] = make(chan string, 1)
	}
	go func() {
		slots := make(chan struct{}, atOnce)
		for i, p := range parts {
			slots <- struct{}{}
			go func() {
				lines[i] <- p.play(d)
				<-slots
			}()
		}
	}()
	passed = true
	for _, line := range lines {
		text := <-line
		fmt.Println(text)
		passed = passed && strings.Fields(text)[5] != "fail"
	}
	return passed
}

// part is a scene of a library.
type part struct {
	l library
	s scene
}

// play shows the scene, and returns the line of its result.
func (p part) play(d *death) string {
	ctx, cancel := context.WithTimeout(context.Background(), sceneMax)
	defer cancel()
	ready := func() {}
	if d != nil {
		ready = sync.OnceFunc(d.absent.Done)
	}
	words, err := p.s.show(ctx, d, ready)
	ready() // do not wait for a scene that has ended
	verdict := "ok"
	if none, is := err.(noScene); is {
		verdict, words = "none", string(none)
	} else if err != nil {
		verdict, words = "fail", strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	line := []string{"RESULT", p.l.name, version(p.l.module), p.l.mode, p.s.name, verdict, words}
	return strings.TrimSuffix(strings.Join(line, " "), " ")
}

// version returns the version of a module in this build.
func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, m := range info.Deps {
		if m.Path == module {
			return m.Version
		}
	}
	return "?"
}
