// Package login has the flags by which programs authenticate to servers.
package login

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"lockd/internal/secure"
)

// Flags are the flags, for kong.
type Flags struct {
	User         string `help:"User to authenticate as." placeholder:"NAME"`
	Auth         string `secret:"" help:"Password to authenticate with; better in --password-file or LOCKD_PASSWORD, where other users of the machine do not see it." placeholder:"PASSWORD"`
	PasswordFile string `help:"File with the password to authenticate with." placeholder:"FILE"`

	TLS           bool   `name:"tls" help:"Speak TLS to the nodes."`
	TLSCACertFile string `name:"tls-ca-cert-file" aliases:"cacert" help:"Authorities that the nodes' certificates are of, in PEM (default: the system's)." placeholder:"FILE"`
	TLSCertFile   string `name:"tls-cert-file" aliases:"cert" help:"Certificate to show, in PEM." placeholder:"FILE"`
	TLSKeyFile    string `name:"tls-key-file" aliases:"key" help:"Its private key, in PEM." placeholder:"FILE"`
	SNI           string `name:"sni" help:"Name that the nodes' certificates must have (default: the host that is connected to)." placeholder:"NAME"`
	Insecure      bool   `help:"Speak TLS without asking whose certificate it is."`
}

// Check reads the password of --password-file into Auth, and the certificates. It returns the TLS configuration; nil:
// no TLS. An error begins with the flag that is wrong, if one is.
func (f *Flags) Check() (*tls.Config, error) {
	if f.PasswordFile != "" {
		password, err := ReadPassword("--password-file", f.PasswordFile)
		if err != nil {
			return nil, err
		}
		f.Auth = password
	}
	if !f.TLS {
		return nil, nil
	}
	if (f.TLSCertFile == "") != (f.TLSKeyFile == "") {
		return nil, errors.New("--tls-cert-file and --tls-key-file need each other")
	}
	m, err := secure.Load(secure.Files{Cert: f.TLSCertFile, Key: f.TLSKeyFile, CA: f.TLSCACertFile})
	if err != nil {
		return nil, fmt.Errorf("the certificates are no good: %w", err)
	}
	cfg := m.Client()
	cfg.ServerName, cfg.InsecureSkipVerify = f.SNI, f.Insecure
	return cfg, nil
}

// passwordBytesMax bounds the password file: a larger file is the wrong one.
const passwordBytesMax = 4096

// ReadPassword reads a password from the file of a flag, without line breaks at its end.
func ReadPassword(flag, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, passwordBytesMax+1))
	password := strings.TrimRight(string(text), "\r\n")
	switch {
	case err != nil:
		return "", fmt.Errorf("%s: %w", flag, err)
	case password == "":
		return "", fmt.Errorf("%s %s is empty", flag, path)
	case len(password) > passwordBytesMax || strings.ContainsAny(password, "\r\n"):
		return "", fmt.Errorf("%s %s is more than one line of %d bytes", flag, path, passwordBytesMax)
	}
	return password, nil
}
