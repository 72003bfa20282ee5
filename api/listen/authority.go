package listen

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/jobd/jobd/api/roles"
	"github.com/jobd/jobd/internal/files"
)

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	serverLife    = 90 * 24 * time.Hour
	clientLife    = 365 * 24 * time.Hour
	// skew is how much clocks may differ.
	skew = time.Hour
)

// Authority is the root of trust of the TLS listener: it signs the server's certificates, recognizes the clients'
// certificates that it signed, and holds the administrator's token.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
	pool        *x509.CertPool
	token       string
	now         func() time.Time

	mu     sync.Mutex
	issued map[string]*tls.Certificate // by the address that clients connected to
}

// OpenAuthority reads the authority in dir, or makes one: ca.crt, ca.key and admin.token. Keys and token are readable
// by the owner alone. A certificate of the authority that is near its expiry is renewed with the same key.
func OpenAuthority(dir string) (*Authority, error) {
	return openAuthority(dir, time.Now)
}

func openAuthority(dir string, now func() time.Time) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("keep certificates: %w", err)
	}
	a := &Authority{now: now, pool: x509.NewCertPool(), issued: map[string]*tls.Certificate{}}
	for _, step := range []func(string) error{a.loadKey, a.loadCertificate, a.loadToken} {
		if err := step(dir); err != nil {
			return nil, fmt.Errorf("authority in %s: %w", dir, err)
		}
	}
	a.pool.AddCert(a.certificate)
	return a, nil
}

// Roots returns what the certificates of clients are verified with.
func (a *Authority) Roots() *x509.CertPool { return a.pool }

// Certificate returns the authority's own certificate, in PEM, with which clients verify the server.
func (a *Authority) Certificate() []byte { return a.pem }

func (a *Authority) loadKey(dir string) (err error) {
	a.key, err = OpenKey(filepath.Join(dir, "ca.key"))
	return err
}

// OpenKey reads a private key of the curve P-256, or makes one that is readable by its owner alone.
func OpenKey(path string) (*ecdsa.PrivateKey, error) {
	data, err := readOrMake(path, func() ([]byte, error) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, err
		}
		return encodeKey(key)
	})
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s holds no key", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, fmt.Errorf("%s: not a key of the curve P-256", path)
	}
	return key, nil
}

func (a *Authority) loadCertificate(dir string) error {
	path := filepath.Join(dir, "ca.crt")
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if block, _ := pem.Decode(data); block != nil {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		mine, ok := cert.PublicKey.(*ecdsa.PublicKey)
		if ok && mine.Equal(&a.key.PublicKey) && a.fresh(cert) {
			a.certificate, a.pem = cert, data
			return nil
		}
	}
	subject := pkix.Name{CommonName: "jobd authority"}
	template := &x509.Certificate{
		Subject: subject, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
	}
	a.certificate, a.pem, err = a.sign(template, template, &a.key.PublicKey, authorityLife)
	if err != nil {
		return err
	}
	return files.ReplaceDurably(path, a.pem, 0o644)
}

func (a *Authority) loadToken(dir string) error {
	data, err := readOrMake(filepath.Join(dir, "admin.token"), func() ([]byte, error) {
		secret := make([]byte, 32)
		if _, err := rand.Read(secret); err != nil {
			return nil, err
		}
		return []byte(base64.RawURLEncoding.EncodeToString(secret) + "\n"), nil
	})
	if err != nil {
		return err
	}
	if a.token = strings.TrimSpace(string(data)); a.token == "" {
		return errors.New("admin.token is empty: remove it to have a new one made")
	}
	return nil
}

// fresh reports whether at least a third of a certificate's life is left.
func (a *Authority) fresh(c *x509.Certificate) bool {
	return a.now().Add(c.NotAfter.Sub(c.NotBefore) / 3).Before(c.NotAfter)
}

func (a *Authority) sign(
	template, parent *x509.Certificate, public *ecdsa.PublicKey, life time.Duration,
) (*x509.Certificate, []byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, err
	}
	template.SerialNumber = serial
	template.NotBefore = a.now().Add(-skew)
	template.NotAfter = a.now().Add(life)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, a.key)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), err
}

// IssueClient makes a certificate and key, in PEM, for a client of this name and these groups.
func (a *Authority) IssueClient(name string, groups []string, life time.Duration) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	_, cert, err = a.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: name, Organization: groups},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, a.certificate, &private.PublicKey, life)
	if err != nil {
		return nil, nil, err
	}
	key, err = encodeKey(private)
	return cert, key, err
}

// serverConfig presents to every connection a certificate that is valid for the address it was made to. Certificates
// are short-lived, are held in memory only, and are renewed in time.
func (a *Authority) serverConfig(host string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		ClientAuth: tls.RequestClientCert, // the authenticator verifies it, and can report what is wrong with it
		NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			at, _, err := net.SplitHostPort(hello.Conn.LocalAddr().String())
			if err != nil {
				return nil, err
			}
			return a.serverCertificate(host, at)
		},
	}
}

func (a *Authority) serverCertificate(names ...string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	id := strings.Join(names, " ")
	if c := a.issued[id]; c != nil && a.fresh(c.Leaf) {
		return c, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "jobd"},
		DNSNames: []string{
			"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
			"kubernetes.default.svc.cluster.local",
		},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if name, err := os.Hostname(); err == nil {
		template.DNSNames = append(template.DNSNames, name)
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else if name != "" {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	leaf, _, err := a.sign(template, a.certificate, &key.PublicKey, serverLife)
	if err != nil {
		return nil, err
	}
	c := &tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}
	a.issued[id] = c
	return c, nil
}

// AuthenticateToken authenticates the administrator.
func (a *Authority) AuthenticateToken(_ context.Context, token string) (*authenticator.Response, bool, error) {
	if subtle.ConstantTimeCompare([]byte(token), []byte(a.token)) != 1 {
		return nil, false, nil
	}
	return &authenticator.Response{User: &user.DefaultInfo{Name: "jobd:admin", Groups: []string{roles.AdminGroup}}}, true, nil
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// readOrMake reads a secret, or makes it, for the owner alone.
func readOrMake(path string, make func() ([]byte, error)) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err == nil && len(bytes.TrimSpace(data)) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return data, err
	}
	if data, err = make(); err != nil {
		return nil, err
	}
	return data, files.ReplaceDurably(path, data, 0o600)
}
