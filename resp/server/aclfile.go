package server

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// The file of users (Config.ACLFile) is a copy that this node reads and writes when it is told to: the users
// themselves are in the replicated state, the same on every node.

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
