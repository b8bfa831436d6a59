package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
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

	node    *configFile // of the node that is asked; nil: there is none
	secured *tls.Config // nil: without TLS
}

func (f *loginFlags) ofNode(file *configFile) { f.node = file }

// addrDefault is where a node without flags lets clients in.
const addrDefault = "127.0.0.1:6379"

// nodeAddr is the address in the file of a node at which this machine reaches it, by TLS where there is no other
// or it was asked for. Its certificate is for the name that others know it by.
func (f *loginFlags) nodeAddr() string {
	plain, ok := f.node.value("listen")
	if !ok {
		plain.text = addrDefault
	}
	secured, _ := f.node.value("tls-listen")
	f.TLS = f.TLS || f.nodeNeedsTLS()
	addr, _, _ := strings.Cut(plain.text, ",")
	if f.TLS && secured.text != "" {
		addr, _, _ = strings.Cut(secured.text, ",")
		known, ok := f.node.value("tls-advertise")
		if !ok {
			known, _ = f.node.value("advertise")
		}
		if host, _, err := net.SplitHostPort(known.text); err == nil && f.SNI == "" {
			f.SNI = host
		}
	}
	host, port, err := net.SplitHostPort(addr)
	if ip := ipOf(host); err == nil && ip.IsUnspecified() {
		loopback := net.IPv4(127, 0, 0, 1)
		if strings.Contains(host, ":") {
			loopback = net.IPv6loopback
		}
		addr = net.JoinHostPort(loopback.String(), port)
	}
	return addr
}

// nodeNeedsTLS reports whether the node of the file speaks nothing else.
func (f *loginFlags) nodeNeedsTLS() bool {
	plain, ok := f.node.value("listen")
	secured, _ := f.node.value("tls-listen")
	return ok && plain.text == "" && secured.text != ""
}

// nodePassword takes the password from the file of a node where none was given: it is the default user's.
func (f *loginFlags) nodePassword() (err error) {
	if f.Auth != "" || f.PasswordFile != "" || f.User != "" && f.User != "default" {
		return nil
	}
	password, _ := f.node.value("requirepass")
	path, _ := f.node.value("requirepass-file")
	f.Auth, err = passwordOf("--requirepass", password.text, path.text)
	return err
}

// check finds the password and reads the certificates.
func (f *loginFlags) check() error {
	err := f.nodePassword()
	if f.PasswordFile != "" {
		f.Auth, err = readPassword("--password-file", f.PasswordFile)
	}
	if err != nil {
		return err
	}
	f.TLS = f.TLS || f.nodeNeedsTLS()
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
