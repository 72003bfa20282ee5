package doctor

import (
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
)

// Without a daemon it is looked whether the addresses are free; nothing is said where none are served.
func TestAddresses(t *testing.T) {
	warnings := &collector{}
	p := &patient{logger: slog.New(warnings)}
	p.wanted.Socket = filepath.Join(t.TempDir(), "s")
	if text, err := addresses(t.Context(), p); text != "" || err != nil {
		t.Error(text, err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p.wanted.Listen = l.Addr().String()
	if _, err := addresses(t.Context(), p); err != nil {
		t.Error(err)
	}
	if w := warnings.take(); len(w) != 1 || !strings.Contains(w[0].text, p.wanted.Listen) {
		t.Error(w)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if text, err := addresses(t.Context(), p); text != p.wanted.Listen || err != nil || len(warnings.take()) != 0 {
		t.Error(text, err)
	}
}
