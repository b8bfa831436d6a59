// Package access holds the users of the cluster as a node knows them (Users), the rights of a connection's user
// (Rights), and the records of the node about users: wrong passwords by address, denials (ACL LOG), and the file of
// users (ACL LOAD, ACL SAVE).
package access

import (
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

// File is the file of users, a copy that this node reads and writes on request: the users themselves are replicated
// state, the same on every node. Its methods are safe for concurrent use.
type File struct {
	Path string // "": no file

	mu   sync.Mutex
	seen [sha256.Size]byte // hash of the content when the file was last read or written, or the node started
}

// NewFile returns the file at a path and remembers its present content.
func NewFile(path string) *File {
	f := &File{Path: path}
	if path == "" {
		return f
	}
	if text, err := f.Read(); err == nil {
		f.Note(text)
	}
	return f
}

// Note remembers the content of the file.
func (f *File) Note(text string) {
	sum := sha256.Sum256([]byte(text))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = sum
}

// Changed reports whether the content differs from the remembered one.
func (f *File) Changed(text string) bool {
	sum := sha256.Sum256([]byte(text))
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen != sum
}

// Parse parses the content of the file; known are the commands that rules can name. An error is one of Redis's
// answers.
func (f *File) Parse(known *acl.Commands, text string) (*acl.Users, error) {
	return acl.ReadFile(known, f.Path, text)
}

// fileBytesMax bounds the file.
const fileBytesMax = 8 << 20

var errLarge = errors.New("it is larger than 8 MB")

// Read returns the content of the file; an error is one of Redis's answers.
func (f *File) Read() (string, error) {
	file, err := os.Open(f.Path)
	if err != nil {
		return "", f.unreadable(err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, fileBytesMax+1))
	switch {
	case err != nil:
		return "", f.unreadable(err)
	case len(text) > fileBytesMax:
		return "", f.unreadable(errLarge)
	}
	return string(text), nil
}

// unreadable returns Redis's error with the system's reason, without repeating the path.
func (f *File) unreadable(err error) error {
	var of *fs.PathError
	if errors.As(err, &of) {
		err = of.Err
	}
	return resp.Error("ERR Error loading ACLs, opening file '" + f.Path + "': " + err.Error())
}

// Replace writes the file, readable only by its owner. It ends up complete or unchanged.
func (f *File) Replace(text string) error {
	tmp, err := os.CreateTemp(filepath.Dir(f.Path), filepath.Base(f.Path)+".*.tmp") // for its owner alone
	if err != nil {
		return err
	}
	_, err = tmp.WriteString(text)
	if err == nil {
		err = tmp.Sync()
	}
	if e := tmp.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(tmp.Name(), f.Path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
	return err
}
