package secure

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// pollEvery is the interval of reading the files. A change takes effect when it has been read twice: a
	// certificate and its key are not written at one instant.
	pollEvery = 5 * time.Second
	// expiryWarned is the time before its expiry from which a certificate is warned of, every expiryWarnedEvery.
	expiryWarned      = 14 * 24 * time.Hour
	expiryWarnedEvery = 24 * time.Hour
)

// Source holds the material of some files, and follows changes of them. Its methods are safe for concurrent use.
type Source struct {
	files Files
	log   *slog.Logger
	now   atomic.Pointer[Material]

	mu     sync.Mutex
	taken  [sha256.Size]byte // hash of the last content that was tried, good or bad
	seen   [sha256.Size]byte // hash of the last content that was read
	warned map[string]time.Time
}

// Open reads the files. Its error names the bad one.
func Open(files Files, log *slog.Logger) (*Source, error) {
	m, sum, err := files.read()
	if err != nil {
		return nil, err
	}
	s := &Source{files: files, log: log, taken: sum, seen: sum, warned: map[string]time.Time{}}
	s.now.Store(m)
	return s, nil
}

// Current returns the last good material.
func (s *Source) Current() *Material { return s.now.Load() }

// Watch follows the files until ctx ends, and warns of certificates that expire soon.
func (s *Source) Watch(ctx context.Context) {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		s.warn(time.Now())
		select {
		case <-ticker.C:
			s.update(false)
		case <-ctx.Done():
			return
		}
	}
}

// Reload reads the files at once, and reports whether they are in force now. If they are bad, the former ones stay in
// force, and the log says why.
func (s *Source) Reload() bool { return s.update(true) }

// update reads the files, applies them if asked or if they have changed, and reports whether they are in force now.
func (s *Source) update(asked bool) bool {
	m, sum, err := s.files.read()
	switch {
	case !s.takes(m, sum, err, asked):
		return false
	case err != nil:
		s.log.Warn("the new certificates are no good, and those of before stay in force: put them right, and they "+
			"are read again", "why", err)
		return false
	}
	about := []any{}
	for _, c := range m.Certificates() {
		about = append(about, c.What, c.Subject.String(), c.What+"Expires", c.NotAfter.UTC().Format(time.RFC3339))
	}
	s.log.Info("the certificates were read again", about...)
	return true
}

// takes reports whether the content has to be tried, and applies it if it is good.
func (s *Source) takes(m *Material, sum [sha256.Size]byte, err error, asked bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	unchanged := sum == s.seen
	s.seen = sum
	if !asked && (sum == s.taken || !unchanged) {
		return false
	}
	s.taken = sum
	if err == nil {
		s.now.Store(m)
		clear(s.warned)
	}
	return true
}

// warn logs each certificate that expires soon, once a day.
func (s *Source) warn(now time.Time) {
	for _, c := range s.expiring(now) {
		text := "a certificate expires soon: replace its file, which is read again by itself"
		if c.Left(now) <= 0 {
			text = "a certificate has expired: replace its file, which is read again by itself"
		}
		s.log.Warn(text, "certificate", c.What, "subject", c.Subject.String(),
			"expires", c.NotAfter.UTC().Format(time.RFC3339))
	}
}

// expiring returns the certificates to warn of now.
func (s *Source) expiring(now time.Time) (due []Named) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.Current().Certificates() {
		last, warned := s.warned[c.What]
		if c.Left(now) > expiryWarned || warned && now.Sub(last) < expiryWarnedEvery {
			continue
		}
		s.warned[c.What] = now
		due = append(due, c)
	}
	return due
}

// Server returns the configuration of a server that demands certificates of its clients as auth says. Each handshake
// uses the certificates current at that time. Sessions are not resumed: otherwise a client whose authority was
// removed could return with an old one.
func (s *Source) Server(auth tls.ClientAuthType) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			m := s.Current()
			return &tls.Config{
				MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*m.Certificate},
				ClientAuth: auth, ClientCAs: m.Roots, SessionTicketsDisabled: true,
			}, nil
		},
	}
}

// Client returns the configuration of a client whose servers' certificates must match the host that it dials. Without
// authorities of its own it trusts the system's.
func (m *Material) Client() *tls.Config {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: m.Roots}
	if m.Certificate != nil {
		cfg.Certificates = []tls.Certificate{*m.Certificate}
	}
	return cfg
}
