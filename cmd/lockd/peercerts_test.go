package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"lockd/internal/secure/securetest"
)

// A cluster moves from a secret to another, and then to certificates, one node at a time, and answers all the while.
func TestPeersMove(t *testing.T) {
	t.Parallel()
	const before, after = "the secret of before\n", "the secret of later\n"
	ca, dir := securetest.NewCA(t, "ca"), t.TempDir()
	file := func(i int) string { return filepath.Join(dir, fmt.Sprint("secret", i)) }
	write := func(i int, text string) {
		if err := os.WriteFile(file(i), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cluster := startClusterOf(t, 3, func(i int) []string {
		write(i, before)
		return append(patient(), "--peer-secret-file", file(i))
	})
	ctx := context.Background()
	works := func(step string) {
		t.Helper()
		for _, p := range cluster {
			eventually(t, startTimeout, step+": "+p.name+" serves", func() error { return p.client().Set(ctx, step, "v", 0).Err() })
		}
	}
	for step, text := range []string{before + after, after + before, after} {
		for i, p := range cluster {
			said := strings.Count(p.log.String(), "was read again")
			write(i, text)
			p.Signal(syscall.SIGHUP)
			eventually(t, startTimeout, "it has read it", func() error {
				if strings.Count(p.log.String(), "was read again") == said {
					return errors.New(p.log.tail(3))
				}
				return nil
			})
		}
		restart(cluster[step]) // what it proves and believes now holds for all its connections
		works(fmt.Sprint("secret ", step))
	}
	write(0, "short")
	cluster[0].Signal(syscall.SIGHUP)
	eventually(t, startTimeout, "it refuses a secret that is none", func() error {
		if !strings.Contains(cluster[0].log.String(), "the new secret of the peers is no good") {
			return errors.New(cluster[0].log.tail(3))
		}
		return nil
	})
	write(0, after)

	for i, p := range cluster {
		own := filepath.Join(dir, p.name)
		if err := os.Mkdir(own, 0o700); err != nil {
			t.Fatal(err)
		}
		f := ca.Write(t, own, month, p.name)
		p.args = append(p.args, "--peer-tls-cert-file", f.Cert, "--peer-tls-key-file", f.Key, "--peer-tls-ca-cert-file", f.CA)
		restart(p)
		works(fmt.Sprint("certificates ", i))
	}
	for i, p := range cluster {
		for at, arg := range p.args {
			if arg == "--peer-secret-file" {
				p.args = append(p.args[:at:at], p.args[at+2:]...)
				break
			}
		}
		restart(p)
		works(fmt.Sprint("no secret ", i))
	}
	if info := cluster[0].client().Info(ctx, "tls").Val(); !strings.Contains(info, "tls_peer_cert_expires_in_seconds:") {
		t.Errorf("INFO says %q", info)
	}
}

// restart kills a node and starts it again.
func restart(p *proc) {
	p.t.Helper()
	p.Kill()
	p.start()
	p.awaitServing()
}
