package listen

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jobd/jobd/api/conns"
)

// Whoever has a port first keeps nothing but that port from being served, and is not taken for jobd meanwhile.
func TestPortThatSomebodyElseHas(t *testing.T) {
	a, err := OpenAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	pair, key, err := a.IssueClient("of managers", nil, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	certificateFile, keyFile := filepath.Join(t.TempDir(), "crt"), filepath.Join(t.TempDir(), "key")
	if err := errors.Join(os.WriteFile(certificateFile, pair, 0o600), os.WriteFile(keyFile, key, 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, listen := range map[string]func(address string) (*Listener, error){
		"users":    func(address string) (*Listener, error) { return TLS(address, a, false) },
		"managers": func(address string) (*Listener, error) { return ForManagers(address, certificateFile, keyFile) },
	} {
		t.Run(name, func(t *testing.T) {
			thief, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer thief.Close()
			l, err := listen(thief.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			var used *AddressInUseError
			if !errors.As(l.Waits(), &used) || l.Addr().String() != thief.Addr().String() {
				t.Fatalf("%v at %s", l.Waits(), l.Addr())
			}
			server := &http.Server{
				Handler:   http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "jobd") }),
				TLSConfig: l.TLS(), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
			}
			served := make(chan error, 1)
			go func() { served <- l.Serve(server, conns.New(conns.MaxIdle)) }()
			select {
			case err := <-served:
				t.Fatalf("it has ended: %v", err)
			case <-l.Opened():
				t.Fatal("two listen there")
			case <-time.After(2 * firstRetry):
			}
			if err := thief.Close(); err != nil {
				t.Fatal(err)
			}
			select {
			case <-l.Opened():
			case <-time.After(2 * longestRetry):
				t.Fatal("it does not listen")
			}
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
			defer client.CloseIdleConnections()
			answer, err := client.Get("https://" + l.Addr().String())
			if err != nil || l.Waits() != nil {
				t.Fatal(err, l.Waits())
			}
			_ = answer.Body.Close()
			if err := server.Close(); err != nil {
				t.Fatal(err)
			}
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
	}
}

// One that waits can be stopped, and does not take the port afterwards.
func TestCloseWhileAPortIsTaken(t *testing.T) {
	thief, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer thief.Close()
	l, err := listenLate(thief.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan error, 1)
	go func() {
		_, err := l.Accept()
		accepted <- err
	}()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-accepted; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if err := thief.Close(); err != nil {
		t.Fatal(err)
	}
	if l.try(); l.listener() != nil {
		t.Error("it listens")
	}
}

// What waiting does not help fails at once.
func TestAddressThatThereIsNot(t *testing.T) {
	for _, at := range []string{"192.0.2.1:1", "127.0.0.1:http-of-nobody"} {
		if l, err := listenLate(at); err == nil {
			t.Errorf("%s: %v", at, l.Addr())
		}
	}
}
