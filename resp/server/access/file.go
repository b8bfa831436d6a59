// Package access has what a node itself keeps about users: who has guessed passwords, what was denied (ACL LOG), and the
// file of users (ACL LOAD, ACL SAVE).
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

// File is the file of users, a copy that this node reads and writes on request: the users themselves are in the
// replicated state, the same on every node. Its methods may be called concurrently.
type File struct {
	Path string // "": there is none

	mu   sync.Mutex
	seen [sha256.Size]byte // the sum of what was in it when it was last read or written, or the node started
}

// NewFile remembers what is in the file now.
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

// Note remembers what is in the file.
func (f *File) Note(text string) {
	sum := sha256.Sum256([]byte(text))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = sum
}

// IsNews reports whether something else was in the file.
func (f *File) IsNews(text string) bool {
	sum := sha256.Sum256([]byte(text))
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen != sum
}

// Parse reads the users of a text of the file, by the commands that there are; an error is one of Redis's answers.
func (f *File) Parse(known *acl.Commands, text string) (*acl.Users, error) {
	return acl.ReadFile(known, f.Path, text)
}

// fileBytesMax bounds the file.
const fileBytesMax = 8 << 20

var errLarge = errors.New("it is larger than 8 MB")

// Read returns what is in the file; an error is one of Redis's answers.
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

// unreadable says what the system said; the path is named anyhow.
func (f *File) unreadable(err error) error {
	var of *fs.PathError
	if errors.As(err, &of) {
		err = of.Err
	}
	return resp.Error("ERR Error loading ACLs, opening file '" + f.Path + "': " + err.Error())
}

// Replace writes the file, which only its owner may read. It is whole, or as it was.
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
