package listen

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

// ForManagers listens on host:port, which other machines may reach, with a certificate that was given, as soon as no other process
// does (Waits). As for pods, clients are known by the tokens of ServiceAccounts and by nothing else: neither the administrator's token
// nor certificates of users are of use there.
func ForManagers(address, certificate, key string) (*Listener, error) {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, fmt.Errorf("listen on %q: an address is HOST:PORT, such as 0.0.0.0:6444: %w", address, err)
	}
	given := &givenCertificate{certificate: certificate, key: key}
	if _, err := given.get(nil); err != nil {
		return nil, err
	}
	l, err := listenLate(address)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return &Listener{Listener: l, late: l, managers: true, tls: &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, GetCertificate: given.get,
	}}, nil
}

// ForManagers reports whether it is one of ForManagers.
func (l *Listener) ForManagers() bool { return l.managers }

// givenCertificate is a certificate in files, which others renew.
type givenCertificate struct {
	certificate, key string

	mu      sync.Mutex
	read    *tls.Certificate
	written time.Time // of both files, the later one
}

// get returns the certificate as it is in the files now, or as it was last if they are no pair at the moment.
func (g *givenCertificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	written, err := g.lastWritten()
	if err == nil && g.read != nil && written.Equal(g.written) {
		return g.read, nil
	}
	var pair tls.Certificate
	if err == nil {
		pair, err = tls.LoadX509KeyPair(g.certificate, g.key)
	}
	switch {
	case err == nil:
		g.read, g.written = &pair, written
	case g.read == nil:
		return nil, fmt.Errorf("the certificate for managers: %w", err)
	}
	return g.read, nil
}

func (g *givenCertificate) lastWritten() (last time.Time, err error) {
	for _, path := range []string{g.certificate, g.key} {
		info, err := os.Stat(path)
		if err != nil {
			return last, err
		}
		if info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	return last, nil
}
