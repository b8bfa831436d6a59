package target

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// patchDir, in the repository, has a file NAME.patch for each bug, and for each other build:
// what plants it in the sources.
const patchDir = "jepsen-lite/planted"

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

// Build builds the server of a target, with patches planted in it, one after the other, and with more flags of go
// build.
func (k Kind) Build(path string, patches []string, flags ...string) error {
	if len(patches) > 0 {
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
		for _, name := range patches {
			files = append(files, filepath.Join(repo, patchDir, name+".patch"))
		}
		overlay, err := plant(repo, dir, files...)
		if err != nil {
			return fmt.Errorf("%s cannot be planted: %w", strings.Join(patches, " with "), err)
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

// plant applies patches, in their order, to copies in dir of the files that they touch. It returns the file that tells
// the go command to take these instead.
func plant(repo, dir string, patches ...string) (overlay string, err error) {
	replace := map[string]string{} // a file of the sources -> what to take instead
	for _, patch := range patches {
		text, err := os.ReadFile(patch)
		if err != nil {
			return "", err
		}
		paths := touched(text)
		if len(paths) == 0 {
			return "", errors.New(patch + " changes nothing")
		}
		for _, path := range paths {
			from, to := filepath.Join(repo, path), filepath.Join(dir, path)
			if replace[from] != "" { // an earlier patch has its copy
				continue
			}
			replace[from] = to
			if err := copyFile(from, to); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return "", err // but a file that is not there yet
			}
		}
		if err := applyPatch(patch, dir); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o644)
}

var patchedFile = regexp.MustCompile(`(?m)^\+\+\+ b/(\S+)$`)

// touched are the files that a patch changes or adds.
func touched(patch []byte) (paths []string) {
	for _, m := range patchedFile.FindAllSubmatch(patch, -1) {
		paths = append(paths, string(m[1]))
	}
	return paths
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o644)
}

// applyPatch has git apply a patch to the files of dir.
func applyPatch(patch, dir string) error {
	git, err := exec.LookPath("git")
	if err != nil {
		return fmt.Errorf("git applies the patch, and there is none: %w", err)
	}
	cmd := exec.Command(git, "apply", "--whitespace=nowarn", patch)
	cmd.Dir = dir
	// In a folder of a repository git would leave out what it takes for files outside.
	cmd.Env = append(ownGit(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("its patch does not apply to the sources as they are: %s (%s, %w)", oneLine(said), patch, err)
	}
	return nil
}

// ownGit is the environment for git without what it is told there: of a hook, for example, and it speaks of another
// folder.
func ownGit() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GIT_") })
}
