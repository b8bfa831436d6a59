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
	// pollEvery is how often the files are read. What is new is taken when it has been seen twice:
	// a certificate and its key are not written at one instant.
	pollEvery = 5 * time.Second
	// expiryWarned is how long before its end a certificate is warned of, each expiryWarnedEvery.
	expiryWarned      = 14 * 24 * time.Hour
	expiryWarnedEvery = 24 * time.Hour
)

// Source has the material of some files, and follows them. Its methods may be called concurrently.
type Source struct {
	files Files
	log   *slog.Logger
	now   atomic.Pointer[Material]

	mu     sync.Mutex
	taken  [sha256.Size]byte // the sum of what was tried last, good or bad
	seen   [sha256.Size]byte // of what was there at the last reading
	warned map[string]time.Time
}

// Open reads the files. Its error is about them.
func Open(files Files, log *slog.Logger) (*Source, error) {
	m, sum, err := files.read()
	if err != nil {
		return nil, err
	}
	s := &Source{files: files, log: log, taken: sum, seen: sum, warned: map[string]time.Time{}}
	s.now.Store(m)
	return s, nil
}

// Current is what was read last and is good.
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

// Reload reads the files again at once, and reports whether they are in force now. Where they are no good the former
// ones stay, and the log says why.
func (s *Source) Reload() bool { return s.update(true) }

// update reads the files, and reports whether they are in force now: asked for, or because they have changed.
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

// takes reports whether what was read is another try, and takes it if it is good.
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

// expiring are the certificates to warn of now.
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

// Server is the configuration of a server that asks its clients for certificates as auth says. Each handshake
// has the certificates that are current then. Sessions are not resumed: a client whose authority was
// taken away must not come in by an old one.
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

// Client is the configuration of a client of servers whose certificates must be for the host that it
// dials. Without authorities of its own it trusts the system's.
func (m *Material) Client() *tls.Config {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: m.Roots}
	if m.Certificate != nil {
		cfg.Certificates = []tls.Certificate{*m.Certificate}
	}
	return cfg
}
