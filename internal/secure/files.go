package secure

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Files are the paths of PEM files.
type Files struct {
	Cert string // the certificate, then its intermediates; "": none
	Key  string // its private key, which is not encrypted
	CA   string // the authorities for the other side's certificate; "": none
}

// fileBytesMax bounds each file: a larger file is the wrong one.
const fileBytesMax = 1 << 20

// Material is the parsed content of the files. It is immutable.
type Material struct {
	Certificate *tls.Certificate // with its Leaf; nil: none
	Roots       *x509.CertPool   // nil: none
	Authorities []*x509.Certificate
}

// Load reads the files. The error names the bad file.
func Load(files Files) (*Material, error) {
	m, _, err := files.read()
	return m, err
}

// read also returns a hash of the content, or of the error.
func (f Files) read() (*Material, [sha256.Size]byte, error) {
	var texts [3][]byte
	sum := sha256.New()
	for i, path := range []string{f.Cert, f.Key, f.CA} {
		text, err := readFile(path)
		if err != nil {
			return nil, sha256.Sum256([]byte(err.Error())), err
		}
		_, _ = sum.Write(binary.AppendUvarint(nil, uint64(len(text)))) // never fails
		_, _ = sum.Write(text)
		texts[i] = text
	}
	m, err := f.parse(texts[0], texts[1], texts[2])
	return m, [sha256.Size]byte(sum.Sum(nil)), err
}

func readFile(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, fileBytesMax+1))
	if err == nil && len(text) > fileBytesMax {
		err = fmt.Errorf("%s has more than %d bytes", path, fileBytesMax)
	}
	return text, err
}

func (f Files) parse(cert, key, ca []byte) (*Material, error) {
	m := &Material{}
	if f.Cert != "" {
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("%s with %s: %w", f.Cert, f.Key, err)
		}
		m.Certificate = &pair
	}
	if f.CA == "" {
		return m, nil
	}
	m.Roots = x509.NewCertPool()
	for block, rest := pem.Decode(ca); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		authority, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.CA, err)
		}
		m.Roots.AddCert(authority)
		m.Authorities = append(m.Authorities, authority)
	}
	if len(m.Authorities) == 0 {
		return nil, fmt.Errorf("%s: %w", f.CA, errNoCertificate)
	}
	return m, nil
}

var errNoCertificate = errors.New("there is no certificate in it")

// Named is a certificate with its use.
type Named struct {
	What string // "server", "ca"
	*x509.Certificate
}

// Certificates returns the certificate and, of the authorities, the one that expires first.
func (m *Material) Certificates() (list []Named) {
	if m.Certificate != nil {
		list = append(list, Named{"server", m.Certificate.Leaf})
	}
	var first *x509.Certificate
	for _, a := range m.Authorities {
		if first == nil || a.NotAfter.Before(first.NotAfter) {
			first = a
		}
	}
	if first != nil {
		list = append(list, Named{"ca", first})
	}
	return list
}

// Left returns for how long the certificate is valid; below 0: it has expired.
func (n Named) Left(now time.Time) time.Duration { return n.NotAfter.Sub(now) }
