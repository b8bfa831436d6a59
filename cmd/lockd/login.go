package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"os"
	"strings"

	"lockd/internal/secure"
)

// passwordBytesMax bounds the file of a password: a larger one is another file.
const passwordBytesMax = 4096

// readPassword reads a password from its file. The ends of lines behind it are no part of it.
func readPassword(flag, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", usagef("%s: %w", flag, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, passwordBytesMax+1))
	password := strings.TrimRight(string(text), "\r\n")
	switch {
	case err != nil:
		return "", usagef("%s: %w", flag, err)
	case password == "":
		return "", usagef("%s %s is empty", flag, path)
	case len(password) > passwordBytesMax || strings.ContainsAny(password, "\r\n"):
		return "", usagef("%s %s is more than one line of %d bytes", flag, path, passwordBytesMax)
	}
	return password, nil
}

// passwordOf is the password of a flag, or of the file of another.
func passwordOf(flag, value, path string) (string, error) {
	switch {
	case path == "":
		return value, nil
	case value != "":
		return "", usagef("%s and %s-file exclude each other", flag, flag)
	}
	return readPassword(flag+"-file", path)
}

// loginFlags are how a client makes itself known; all commands that are clients share them.
type loginFlags struct {
	User         string `help:"User to authenticate as." placeholder:"NAME"`
	Auth         string `secret:"" help:"Password to authenticate with; better in --password-file or LOCKD_PASSWORD, where other users of the machine do not see it." placeholder:"PASSWORD"`
	PasswordFile string `help:"File with the password to authenticate with." placeholder:"FILE"`

	TLS           bool   `name:"tls" help:"Speak TLS to the nodes."`
	TLSCACertFile string `name:"tls-ca-cert-file" aliases:"cacert" help:"Authorities that the nodes' certificates are of, in PEM (default: the system's)." placeholder:"FILE"`
	TLSCertFile   string `name:"tls-cert-file" aliases:"cert" help:"Certificate to show, in PEM." placeholder:"FILE"`
	TLSKeyFile    string `name:"tls-key-file" aliases:"key" help:"Its private key, in PEM." placeholder:"FILE"`
	SNI           string `name:"sni" help:"Name that the nodes' certificates must have (default: the host of --addr)." placeholder:"NAME"`
	Insecure      bool   `help:"Speak TLS without asking whose certificate it is."`

	secured *tls.Config // nil: without TLS
}

// check finds the password and reads the certificates.
func (f *loginFlags) check() error {
	var err error
	if f.PasswordFile != "" {
		if f.Auth, err = readPassword("--password-file", f.PasswordFile); err != nil {
			return err
		}
	}
	if !f.TLS {
		return nil
	}
	if (f.TLSCertFile == "") != (f.TLSKeyFile == "") {
		return usagef("--tls-cert-file and --tls-key-file need each other")
	}
	m, err := secure.Load(secure.Files{Cert: f.TLSCertFile, Key: f.TLSKeyFile, CA: f.TLSCACertFile})
	if err != nil {
		return usageError{fmt.Errorf("the certificates are no good: %w", err)}
	}
	f.secured = m.Client()
	f.secured.ServerName, f.secured.InsecureSkipVerify = f.SNI, f.Insecure
	return nil
}
