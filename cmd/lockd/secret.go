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

// peerSecret is what was given to the node as its cluster's secret.
type peerSecret struct {
	env   string // LOCKD_PEER_SECRET
	inEnv bool   // the variable is there, though it may be empty
	bytes []byte // the secret; nil: none
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
	case s.inEnv:
		s.bytes = []byte(s.env)
	default:
		source = "--peer-secret-file " + c.PeerSecretFile
		if err := s.readFile(c.PeerSecretFile); err != nil {
			return usagef("--peer-secret-file: %w", err)
		}
	}
	s.bytes = bytes.TrimSpace(s.bytes)
	if len(s.bytes) < peer.SecretMin || len(s.bytes) > peerSecretMax {
		return usagef("%s holds %d bytes besides white space, not %d to %d",
			source, len(s.bytes), peer.SecretMin, peerSecretMax)
	}
	return nil
}

func (s *peerSecret) readFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	s.mode = info.Mode()
	s.bytes, err = io.ReadAll(io.LimitReader(f, 2*peerSecretMax))
	return err
}

// warnOfPeers says at each start what is not as it should be with who may be a peer.
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
