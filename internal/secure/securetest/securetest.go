// Package securetest makes certificates for tests.
package securetest

import (
	"testing"
	"time"

	"lockd/internal/authority"
)

// CA is a certificate authority.
type CA struct{ ca *authority.CA }

// Paths are the paths of the files that Write writes.
type Paths = authority.Paths

// NewCA makes an authority that is valid for a year.
func NewCA(t testing.TB, name string) *CA {
	t.Helper()
	ca, err := authority.New(name)
	if err != nil {
		t.Fatal(err)
	}
	return &CA{ca}
}

// PEM returns the authority's own certificate.
func (ca *CA) PEM() []byte { return ca.ca.PEM() }

// Issue makes a certificate for names and addresses, valid for the time lasts, and its key.
func (ca *CA) Issue(t testing.TB, lasts time.Duration, names ...string) (cert, key []byte) {
	t.Helper()
	cert, key, err := ca.ca.Issue(lasts, names...)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// Write issues a certificate and writes it, its key and the authority into a folder, over existing files.
func (ca *CA) Write(t testing.TB, dir string, lasts time.Duration, names ...string) Paths {
	t.Helper()
	p, err := ca.ca.Write(dir, lasts, names...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
