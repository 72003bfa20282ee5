package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jobd/jobd/runtime"
)

// TestABodyThatDoesNotComeIsGivenUp sends the beginning of a body. The places of its request are then free.
func TestABodyThatDoesNotComeIsGivenUp(t *testing.T) {
	ts := startServer(t, func(c *Config) { c.bodyPause = time.Second })
	const path = "/api/v1/namespaces/default/configmaps"
	ask := "POST " + path + " HTTP/1.1\r\nHost: jobd\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
	answer, err := http.ReadResponse(bufio.NewReader(ts.raw(t, ask)), nil)
	if err != nil {
		t.Fatal(err, ts.log)
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusRequestTimeout ||
		!strings.Contains(string(said), "the body of the request comes too slowly: 1 bytes in ") {
		t.Errorf("%d: %s: %v", answer.StatusCode, said, err)
	}
	waitFor(t, "its place is free", func() bool {
		held, _, _ := ts.local.shares.All()["write"].Figures()
		return held == 0
	})

	// A body that comes is not affected, and neither is the next request on its connection.
	c := ts.raw(t, "")
	answers := bufio.NewReader(c)
	for i := range 2 {
		body := fmt.Sprintf(`{"metadata":{"name":"c%d"}}`, i)
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: jobd\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
		answer, err := http.ReadResponse(answers, nil)
		if err != nil || answer.StatusCode != http.StatusCreated {
			t.Fatal(answer, err)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
	}
}

// TestTheBodyOfARefusedRequestIsNotWaitedFor asks for what nobody may do, and never sends the body.
func TestTheBodyOfARefusedRequestIsNotWaitedFor(t *testing.T) {
	ts := startServer(t)
	c := ts.raw(t, "POST /apis/batch/v1/nothing HTTP/1.1\r\nHost: jobd\r\nContent-Length: 1000\r\n\r\n{")
	if answer, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 404") {
		t.Errorf("%s: %v", answer, err)
	}
}

// readingImages reads an archive to its end.
type readingImages struct{ Images }

func (readingImages) Import(_ context.Context, archive io.Reader, _ string) ([]runtime.Image, error) {
	_, err := io.Copy(io.Discard, archive)
	return nil, fmt.Errorf("import: %w", err)
}

func TestAnArchiveMayTakeLongToBegin(t *testing.T) {
	ts := startServer(t, func(c *Config) { c.bodyPause, c.Images = time.Second, readingImages{} })
	c := ts.raw(t, "POST /jobd/v1/images?op=import HTTP/1.1\r\nHost: jobd\r\nContent-Length: 10\r\n\r\n")
	waitFor(t, "it is read", func() bool { held, _, _ := ts.local.shares.All()["image"].Figures(); return held == 1 })
	// Other requests are given up in the meantime.
	slow := ts.raw(t, "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: jobd\r\nContent-Length: 1000\r\n\r\n{")
	if answer, err := io.ReadAll(slow); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 408") {
		t.Errorf("%s: %v", answer, err)
	}
	if held, _, _ := ts.local.shares.All()["image"].Figures(); held != 1 {
		t.Error("an import is given up like other requests")
	}
	_ = c.Close()
	waitFor(t, "its place is free", func() bool { held, _, _ := ts.local.shares.All()["image"].Figures(); return held == 0 })
}
