package target

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// BuildRef builds the server of a target as the sources were at a commit or tag of the repository, with more flags of
// go build.
func (k Kind) BuildRef(path, ref string, flags ...string) error {
	repo, err := Repository()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "jepsen-lite-from-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := extract(repo, ref, dir); err != nil {
		return err
	}
	return k.build(dir, path, flags)
}

// extract writes the files of a commit into dir. It uses nothing of the work tree, and changes nothing in the
// repository.
func extract(repo, ref, dir string) error {
	var said, files bytes.Buffer
	git := exec.Command("git", "-C", repo, "archive", "--format=tar", "--end-of-options", ref)
	git.Env, git.Stdout, git.Stderr = ownGit(), &files, &said
	if err := git.Run(); err != nil {
		return fmt.Errorf("git has no sources of %q: %s (%w)", ref, oneLine(said.Bytes()), err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for from := tar.NewReader(&files); ; {
		head, err := from.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if head.Typeflag != tar.TypeReg { // a folder, which its files make, or what git notes
			continue
		}
		if err := root.MkdirAll(filepath.Dir(filepath.FromSlash(head.Name)), 0o755); err != nil {
			return err
		}
		text, err := io.ReadAll(from)
		if err != nil {
			return err
		}
		if err := root.WriteFile(filepath.FromSlash(head.Name), text, 0o644); err != nil {
			return err
		}
	}
}

// ownGit returns the environment for git, without the variables that git sets for a hook: they would name another
// folder.
func ownGit() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GIT_") })
}

// CanTalk returns the highest level of the newer of two builds. It fails if their nodes speak different peer protocols:
// such an upgrade cannot be tested.
func CanTalk(older, newer string) (highest int, err error) {
	was, _, err := builtAs(older)
	if err != nil {
		return 0, err
	}
	is, highest, err := builtAs(newer)
	if err == nil && was != is {
		err = fmt.Errorf("it speaks version %s of the peer protocol, this tree %s: they make no cluster",
			was, is)
	}
	return highest, err
}

// builtAs returns the version of the peer protocol of a build of lockd, and its highest level, which is 0 for a build
// without levels.
func builtAs(path string) (protocol string, highest int, err error) {
	out, err := exec.Command(path, "version", "--verbose").Output()
	if err != nil {
		return "", 0, fmt.Errorf("it does not say what it is: lockd version --verbose: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		switch last := len(words) - 1; {
		case strings.HasPrefix(line, "peer protocol "):
			protocol = words[last]
		case strings.HasPrefix(line, "levels "): // level 1, or levels 1 to 2
			highest, _ = strconv.Atoi(words[last])
		}
	}
	if protocol == "" {
		err = errors.New("it does not say which peer protocol it speaks")
	}
	return protocol, highest, err
}

// oneLine joins the lines of an output.
func oneLine(said []byte) string {
	return strings.ReplaceAll(string(bytes.TrimSpace(said)), "\n", "; ")
}
