package target

import (
	"bytes"
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

// Build builds the server of a target, with a bug planted in it ("": none), and with more
// flags of go build.
func (k Kind) Build(path, bug string, flags ...string) error {
	if bug != "" {
		repo, err := repository()
		if err != nil {
			return err
		}
		dir, err := os.MkdirTemp("", "jepsen-lite-plant-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		overlay, err := plant(repo, filepath.Join(repo, patchDir, bug+".patch"), dir)
		if err != nil {
			return fmt.Errorf("%s cannot be planted: %w", bug, err)
		}
		flags = append(slices.Clone(flags), "-overlay", overlay)
	}
	cmd := exec.Command(
		"go",
		slices.Concat([]string{"build", "-tags", k.Tags, "-o", path}, flags, []string{k.Package})...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build %s: %w (give --binary, or run inside the repository)", k.Package, err)
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

// plant applies a patch to copies in dir of the files that it touches. It returns the file
// that tells the go command to take these instead.
func plant(repo, patch, dir string) (overlay string, err error) {
	text, err := os.ReadFile(patch)
	if err != nil {
		return "", err
	}
	paths := touched(text)
	if len(paths) == 0 {
		return "", errors.New(patch + " changes nothing")
	}
	for _, path := range paths {
		if err := copyFile(filepath.Join(repo, path), filepath.Join(dir, path)); err != nil &&
			!errors.Is(err, fs.ErrNotExist) {
			return "", err // but a file that is not there yet
		}
	}
	if err := applyPatch(patch, dir); err != nil {
		return "", err
	}
	replace := map[string]string{} // a file of the sources -> what to take instead
	for _, path := range paths {
		replace[filepath.Join(repo, path)] = filepath.Join(dir, path)
	}
	if text, err = json.Marshal(map[string]any{"Replace": replace}); err != nil {
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
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "GIT_") { // of a hook, for example, and it speaks of another folder
			cmd.Env = append(cmd.Env, v)
		}
	}
	// In a folder of a repository git would leave out what it takes for files outside.
	cmd.Env = append(cmd.Env, "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	if said, err := cmd.CombinedOutput(); err != nil {
		why := strings.ReplaceAll(string(bytes.TrimSpace(said)), "\n", "; ")
		return fmt.Errorf("its patch does not apply to the sources as they are: %s (%s, %w)", why, patch, err)
	}
	return nil
}
