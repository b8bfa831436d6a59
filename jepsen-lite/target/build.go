package target

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// bugDir, in the repository, has a file NAME.bug for each bug, and for each other build.
const bugDir = "jepsen-lite/planted"

// Builds that have no bug.
const (
	// OwnBuild is the one that a target starts with.
	OwnBuild = ""
	// OtherBuild has the command OtherCommand at the same level: it must be refused.
	OtherBuild   = "other-build"
	OtherCommand = "jepsenlite.other"
	// NextBuild stands for the next release: it can do one level more, at which it has the command NextCommand and
	// the setting NextSetting, and gives other fences.
	NextBuild   = "next-build"
	NextCommand = "jepsenlite.next"
	NextSetting = "jepsenlite-next"
)

// Build builds the server of a target, with bugs planted in it, one after the other, and with more flags of go build.
func (k Kind) Build(path string, bugs []string, flags ...string) error {
	if len(bugs) > 0 {
		repo, err := repository()
		if err != nil {
			return err
		}
		dir, err := os.MkdirTemp("", "jepsen-lite-plant-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		var files []string
		for _, name := range bugs {
			files = append(files, filepath.Join(repo, bugDir, name+".bug"))
		}
		overlay, err := plant(repo, k.Tags, dir, files...)
		if err != nil {
			return fmt.Errorf("%s cannot be planted: %w", strings.Join(bugs, " with "), err)
		}
		flags = append(slices.Clone(flags), "-overlay", overlay)
	}
	if err := k.build("", path, flags); err != nil {
		return fmt.Errorf("%w (give --binary, or run inside the repository)", err)
	}
	return nil
}

// build has the go command build the server of the sources in dir ("": of the working directory's module).
func (k Kind) build(dir, path string, flags []string) error {
	cmd := exec.Command("go", slices.Concat([]string{"build", "-tags", k.Tags, "-o", path}, flags, []string{k.Package})...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build %s: %w", k.Package, err)
	}
	return nil
}

// repository is the folder of lockd's sources.
func repository() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "lockd").Output()
	if err != nil {
		return "", fmt.Errorf("go list -m lockd: %w (run inside the repository)", err)
	}
	return strings.TrimSpace(string(out)), nil
}
