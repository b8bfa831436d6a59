package target

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// OtherCommand is the command that another build of lockd has, and this one has not.
const OtherCommand = "jepsenlite.other"

// otherSource is the file that the other build has more, in the package of the table.
//
//go:embed other_build.txt
var otherSource string

const (
	otherPackage = "lockd/keyspace"
	otherFile    = "cmd_jepsenlite.go" // before the file that makes the table: inits run in the order of names
)

// OtherBuild writes into a folder what go build needs for the other build, and returns the
// flags that say so. The tree stays as it is.
func OtherBuild(folder string) (flags []string, err error) {
	list := exec.Command("go", "list", "-f", "{{.Dir}}", otherPackage)
	list.Stderr = os.Stderr
	dir, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w (another build can be made inside the repository only)", otherPackage, err)
	}
	source, overlay := filepath.Join(folder, otherFile), filepath.Join(folder, "overlay.json")
	if err := os.WriteFile(source, fmt.Appendf(nil, otherSource, OtherCommand), 0o644); err != nil {
		return nil, err
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(strings.TrimSpace(string(dir)), otherFile): source}})
	if err != nil {
		return nil, err
	}
	return []string{"-overlay", overlay}, os.WriteFile(overlay, text, 0o644)
}

// SetBuild implements Target.
func (t *lockd) SetBuild(node string, other bool) error {
	n := t.nodes[node]
	path := t.own
	if other {
		if path = t.other; path == "" {
			return errNoOtherBuild
		}
	}
	n.mu.Lock() // nobody starts it meanwhile
	defer n.mu.Unlock()
	n.strange = other
	n.setPath(path)
	return nil
}

// Said implements Target.
func (t *lockd) Said(node, text string) bool {
	p := &t.nodes[node].proc
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Contains(p.logFrom(p.logStart), text)
}
