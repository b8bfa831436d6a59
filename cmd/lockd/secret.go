package main

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"

	"lockd/cluster/peer"
)

// peerSecretMax bounds the file of a secret: a larger one is another file.
const peerSecretMax = 4096

// readableByOthers are the permissions that the file of a secret should not give.
const readableByOthers fs.FileMode = 0o006

// peerSecret is the secret of the cluster as given to the node.
type peerSecret struct {
	env   string   // LOCKD_PEER_SECRET
	inEnv bool     // the variable is there, though it may be empty
	list  [][]byte // the secret, and another that is believed as well; nil: none
	mode  fs.FileMode
}

// readSecret takes the secret from its file or the environment. One that is given and no
// good is refused: a node that did without it would stand open.
func (c *serveCmd) readSecret() error {
	s, source := &c.secret, "LOCKD_PEER_SECRET"
	switch {
	case c.PeerSecretFile != "" && s.inEnv:
		return usagef("--peer-secret-file and LOCKD_PEER_SECRET exclude each other")
	case c.PeerSecretFile == "" && !s.inEnv:
		return nil
	case c.PeerInsecure:
		return usagef("--peer-insecure is for nodes without a secret, and this one has one")
	}
	text := []byte(s.env)
	if !s.inEnv {
		var err error
		source = "--peer-secret-file " + c.PeerSecretFile
		if text, s.mode, err = readSecretFile(c.PeerSecretFile); err != nil {
			return usagef("--peer-secret-file: %w", err)
		}
	}
	var err error
	s.list, err = splitSecrets(source, text)
	return err
}

// secretsMax bounds the secrets that a node accepts at a time: the old and the new one during a change.
const secretsMax = 2

// splitSecrets finds the secrets in a text, one a line.
func splitSecrets(source string, text []byte) (list [][]byte, err error) {
	for line := range bytes.Lines(bytes.TrimSpace(text)) {
		line = bytes.TrimSpace(line)
		if len(line) < peer.SecretMin || len(line) > peerSecretMax {
			return nil, usagef("%s holds %d bytes besides white space, not %d to %d%s",
				source, len(line), peer.SecretMin, peerSecretMax, inLine(len(list)))
		}
		list = append(list, line)
	}
	switch {
	case len(list) == 0:
		return nil, usagef("%s holds 0 bytes besides white space, not %d to %d", source, peer.SecretMin, peerSecretMax)
	case len(list) > secretsMax:
		return nil, usagef("%s holds %d secrets, one a line, and %d are the most", source, len(list), secretsMax)
	}
	return list, nil
}

// inLine says in which line, if it is not the first.
func inLine(before int) string {
	if before == 0 {
		return ""
	}
	return fmt.Sprintf(", in line %d", before+1)
}

func readSecretFile(path string) (text []byte, mode fs.FileMode, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	text, err = io.ReadAll(io.LimitReader(f, secretsMax*peerSecretMax))
	return text, info.Mode(), err
}

// reloadSecret has what is in the file of the secret now in force; what is no good changes nothing. It reports whether
// it was good.
func (i *instance) reloadSecret(path string) bool {
	var list [][]byte
	text, _, err := readSecretFile(path)
	if err == nil {
		list, err = splitSecrets("--peer-secret-file "+path, text)
	}
	if err != nil {
		i.log.Warn("the new secret of the peers is no good, and that of before stays in force", "why", err)
		return false
	}
	i.node.SetPeerSecrets(list)
	i.log.Info("the secret of the peers was read again", "file", path, "believed", len(list))
	return true
}

// warnOfPeers warns at each start about weak protection of the peer port.
func (c *serveCmd) warnOfPeers(log *slog.Logger) {
	if c.PeerInsecure {
		log.Warn("--peer-insecure: whoever reaches the peer port can read and change everything", "peers", c.PeerListen)
	}
	if c.secret.mode.IsRegular() && c.secret.mode&readableByOthers != 0 {
		log.Warn("the secret of the peers is open to every user of this machine: chmod o= "+c.PeerSecretFile,
			"mode", fmt.Sprintf("%04o", c.secret.mode.Perm()))
	}
}

// loopbackHost is host where addr, of which it is the host, is on loopback, and a host that
// is on loopback otherwise.
func loopbackHost(addr, host string) string {
	if peer.IsLoopback(addr) {
		return host
	}
	return "127.0.0.1"
}
