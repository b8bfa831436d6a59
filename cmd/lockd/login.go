package main

import (
	"crypto/tls"
	"net"
	"strings"

	"lockd/internal/login"
)

// passwordOf is the password of a flag, or of the file of another.
func passwordOf(flag, value, path string) (string, error) {
	switch {
	case path == "":
		return value, nil
	case value != "":
		return "", usagef("%s and %s-file exclude each other", flag, flag)
	}
	password, err := login.ReadPassword(flag+"-file", path)
	if err != nil {
		err = usageError{err}
	}
	return password, err
}

// loginFlags are the credentials of a client; all client commands share them.
type loginFlags struct {
	login.Flags `embed:""`

	node    *configFile // of the node that is asked; nil: there is none
	secured *tls.Config // nil: without TLS
}

func (f *loginFlags) ofNode(file *configFile) { f.node = file }

// addrDefault is the address at which a node without flags serves clients.
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
func (f *loginFlags) check() (err error) {
	if err := f.nodePassword(); err != nil {
		return err
	}
	f.TLS = f.TLS || f.nodeNeedsTLS()
	if f.secured, err = f.Flags.Check(); err != nil {
		return usageError{err}
	}
	return nil
}
