package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"lockd/resp"
	"lockd/resp/acl"
)

// The file of users (Config.ACLFile) is a copy that this node reads and writes when it is told to: the users
// themselves are in the replicated state, the same on every node.
type aclFile struct {
	path string // "": there is none

	mu   sync.Mutex
	seen [sha256.Size]byte // the sum of what was in it when it was last read or written, or the node started
}

func newACLFile(path string) *aclFile {
	f := &aclFile{path: path}
	if path == "" {
		return f
	}
	if text, err := readACLFile(path); err == nil {
		f.note(text)
	}
	return f
}

// note remembers what is in the file.
func (f *aclFile) note(text string) {
	sum := sha256.Sum256([]byte(text))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = sum
}

// isNews reports whether something else was in the file.
func (f *aclFile) isNews(text string) bool {
	sum := sha256.Sum256([]byte(text))
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen != sum
}

// users reads the users of the file, by the commands that there are; an error is one of Redis's answers.
func (f *aclFile) users(of *index, text string, err error) (*acl.Users, error) {
	if err != nil {
		return nil, resp.Error("ERR Error loading ACLs, opening file '" + f.path + "': " + err.Error())
	}
	return acl.ReadFile(of.known, f.path, text)
}

// LoadUsers does as ACL LOAD if the file of users (Config.ACLFile) has changed since the server was made, or since
// ACL LOAD, ACL SAVE or LoadUsers has dealt with it: what ACL SETUSER has changed since is kept where nobody has touched
// the file. It reports whether the users were loaded; an error is one of ACL LOAD's answers. It may be called
// concurrently.
func (s *Server) LoadUsers(ctx context.Context) (loaded bool, err error) {
	if s.aclFile.path == "" {
		return false, nil
	}
	text, err := readACLFile(s.aclFile.path)
	if err == nil && !s.aclFile.isNews(text) {
		return false, nil
	}
	users, err := s.aclFile.users(s.index, text, err)
	if err != nil {
		return false, err
	}
	r := replyAt(s.backend.Do(ctx, resp.Request{Cmds: []resp.Cmd{{Args: loadUsers(users)}}}), 0)
	if r.IsErr() {
		return false, resp.Error(r.Str)
	}
	s.aclFile.note(text)
	return true, nil
}

// loadUsers is the command that has these users take the place of all that there are.
func loadUsers(users *acl.Users) resp.Args {
	return resp.Args{acl.Container.Name, "load", users.Text()}
}

// What is answered where there is no file, or it cannot be used, in Redis's words.
const (
	errNoACLFile = "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the " +
		"ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in " +
		"order to store users in the Redis configuration."
	errACLSave = "ERR There was an error trying to save the ACLs. Please check the server logs for more information"
)

var errACLFileLarge = errors.New("it is larger than 8 MB")

func readACLFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", reasonOf(err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, aclFileBytesMax+1))
	switch {
	case err != nil:
		return "", reasonOf(err)
	case len(text) > aclFileBytesMax:
		return "", errACLFileLarge
	}
	return string(text), nil
}

// reasonOf is what the system said, without the path, which is told anyhow.
func reasonOf(err error) error {
	var e *fs.PathError
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// replaceFile writes a file that only its owner may read. It is whole, or as it was.
func replaceFile(path, text string) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp") // for its owner alone
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
