package target

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// bugDir is the folder of the repository with a file NAME.bug for each bug and for each other build.
const bugDir = "jepsen-lite/planted"

// Builds that have no bug.
const (
	// OwnBuild is the build that a target starts with.
	OwnBuild = ""
	// FormerBuild is the build that OwnBuild named before Adopt.
	FormerBuild = "former-build"
	// OtherBuild has the additional command OtherCommand at the same level, so other nodes must refuse it.
	OtherBuild   = "other-build"
	OtherCommand = "jepsenlite.other"
	// NextBuild stands in for the next release: it has one level more, which adds the command NextCommand and the
	// setting NextSetting, and changes the fences.
	NextBuild   = "next-build"
	NextCommand = "jepsenlite.next"
	NextSetting = "jepsenlite-next"
)

// Build builds the server of a target. It plants the bugs one after the other. flags are more flags of go build.
func (k Kind) Build(path string, bugs []string, flags ...string) error {
	if len(bugs) == 0 {
		return k.buildHere(path, flags)
	}
	return withBugs(bugs, func(repo, dir string, files []string) error {
		overlay, err := plant(repo, k.Tags, dir, files...)
		if err != nil {
			return fmt.Errorf("%s cannot be planted: %w", strings.Join(bugs, " with "), err)
		}
		return k.buildHere(path, append(slices.Clone(flags), "-overlay", overlay))
	})
}

// BuildChoice builds the server with many bugs, none of which is there unless the environment variable has its name. It
// returns those that the build has: some must be planted alone.
func (k Kind) BuildChoice(path, variable string, bugs []string, flags ...string) (planted []string, err error) {
	err = withBugs(bugs, func(repo, dir string, files []string) error {
		overlay, found, err := plantChoices(repo, k.Tags, dir, variable, files...)
		if err != nil {
			return err
		}
		for _, file := range found {
			planted = append(planted, bugs[slices.Index(files, file)])
		}
		return k.buildHere(path, append(slices.Clone(flags), "-overlay", overlay))
	})
	return planted, err
}

// withBugs calls do with the repository, a folder that is removed after it, and the files of bugs.
func withBugs(bugs []string, do func(repo, dir string, files []string) error) error {
	repo, err := Repository()
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
	return do(repo, dir, files)
}

// buildHere builds the sources of the working directory's module.
func (k Kind) buildHere(path string, flags []string) error {
	if err := k.build("", path, flags); err != nil {
		return fmt.Errorf("%w (give --binary, or run inside the repository)", err)
	}
	return nil
}

// build runs go build on the sources in dir; "": of the working directory's module.
func (k Kind) build(dir, path string, flags []string) error {
	cmd := exec.Command("go", slices.Concat([]string{"build", "-tags", k.Tags, "-o", path}, flags, []string{k.Package})...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build %s: %w", k.Package, err)
	}
	return nil
}

// Repository returns the folder of lockd's sources.
func Repository() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "lockd").Output()
	if err != nil {
		return "", fmt.Errorf("go list -m lockd: %w (run inside the repository)", err)
	}
	return strings.TrimSpace(string(out)), nil
}
