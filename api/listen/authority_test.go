package listen

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestCertificatesAreRenewedInTime(t *testing.T) {
	now := time.Now()
	dir := t.TempDir()
	open := func() *Authority {
		a, err := openAuthority(dir, func() time.Time { return now })
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	first := open()
	leaf := func(a *Authority) *x509.Certificate {
		c, err := a.serverCertificate("127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		return c.Leaf
	}
	server := leaf(first)

	now = now.Add(serverLife / 2)
	if !leaf(first).Equal(server) || !open().certificate.Equal(first.certificate) {
		t.Error("renewed too early")
	}
	now = now.Add(serverLife / 3)
	if leaf(first).Equal(server) {
		t.Error("the server's certificate is not renewed while it serves")
	}
	now = now.Add(authorityLife * 3 / 4)
	renewed := open()
	if renewed.certificate.Equal(first.certificate) {
		t.Error("the authority's certificate is not renewed")
	}
	if renewed.token != first.token || !renewed.key.Equal(first.key) {
		t.Error("clients have to be told of the renewal")
	}
	if _, err := leaf(renewed).Verify(
		x509.VerifyOptions{Roots: first.pool, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}},
	); err != nil {
		t.Errorf("clients of the old certificate: %v", err)
	}
}

func TestSecretsAreForTheirOwner(t *testing.T) {
	dir := t.TempDir()
	if _, err := OpenAuthority(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ca.key", "admin.token"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", name, info.Mode(), err)
		}
	}
}
