package overssh

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
)

// TestPass leads a connection through the standard input and output of a program, behind what a shell has written there.
func TestPass(t *testing.T) {
	daemon, far := net.Pipe()
	toFar, in := io.Pipe()
	out, fromFar := io.Pipe()
	go func() {
		_, _ = io.WriteString(fromFar, "Welcome to lab\n\n")
		_ = Pass(far, toFar, fromFar)
		_ = fromFar.Close()
	}()
	p := &program{in: in, out: out, said: &words{}, wait: func() error { return nil }, kill: func() { _ = out.Close() }}
	c, err := p.connection(t.Context(), Address{Host: "lab", Socket: "/s"})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		b := make([]byte, 4)
		_, _ = io.ReadFull(daemon, b)
		_, _ = daemon.Write([]byte("pong"))
		_ = daemon.Close()
	}()
	if _, err := c.Write([]byte("ping")); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(c); err != nil || string(answer) != "pong" {
		t.Errorf("%q, %v", answer, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func TestAProgramThatDoesNotPass(t *testing.T) {
	for name, tc := range map[string]struct{ out, said, want string }{
		"there is none":      {"", "bash: line 1: jobctl: command not found", "lab needs \"jobctl pass --socket /s\" there"},
		"an older one":       {"", `error: unknown command "pass" for "jobctl"`, "lab needs \"jobctl pass --socket /s\" there"},
		"it is not let in":   {"", "error: permission denied on jobd's socket /s: use sudo", "on lab: permission denied on jobd's socket /s: use sudo"},
		"ssh is not let in":  {"", "ann@lab: Permission denied (publickey).", "cannot reach lab by ssh: it accepts none of the keys"},
		"it says nothing":    {"", "", "has ended at once: exit status 9"},
		"a shell that talks": {strings.Repeat("words\n", maxBefore), "", "writes much and does not pass anything on"},
	} {
		in, other := net.Pipe()
		p := &program{in: in, out: strings.NewReader(tc.out), said: &words{}, wait: func() error { return errors.New("exit status 9") }, kill: func() {}}
		_, _ = p.said.Write([]byte(tc.said))
		_, err := p.connection(context.Background(), Address{Host: "lab", Socket: "/s"})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
		_ = other.Close()
	}
}

// What is said there, and shown here, does nothing to the terminal.
func TestWordsAreShownAsText(t *testing.T) {
	var out bytes.Buffer
	w := shown(&out)
	for _, said := range []string{"Warning: a host\r\n", "\x1b]0;title\x07\x1b[2J", "\xe2\x80", "\xaeover", "written\rand over\n"} {
		if n, err := w.Write([]byte(said)); n != len(said) || err != nil {
			t.Errorf("%q: %d, %v", said, n, err)
		}
	}
	const want = "Warning: a host\n\uFFFD]0;title\uFFFD\uFFFD[2J\uFFFDoverwrittenand over\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
