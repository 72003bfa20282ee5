// Package ask sends requests to the paths of a running daemon that are its own, such as /jobd/v1/receivers, over connections that the
// caller makes. What others may have written into an answer that is an error is made fit to be shown.
package ask

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/jobd/jobd/internal/printable"
)

// maxRefusal is how much is read of an answer that is an error.
const maxRefusal = 1 << 20

// Daemon is a running daemon, to which it makes a connection.
type Daemon func(ctx context.Context) (net.Conn, error)

// Unix returns the daemon at a socket.
func Unix(socket string) Daemon {
	return func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "unix", socket) }
}

// Refusal is an answer that is an error.
type Refusal struct {
	Code int // of HTTP
	Said string
}

func (r *Refusal) Error() string { return r.Said }

// Do sends a request without a body, and has the answer read, unless read is nil. The error of an answer that is one is a *Refusal.
func (d Daemon) Do(ctx context.Context, method, path string, read func(io.Reader) error) error {
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return d(ctx) },
	}}
	r, err := http.NewRequestWithContext(ctx, method, "http://jobd"+path, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		return Refused(answer)
	}
	if read == nil {
		return nil
	}
	return read(answer.Body)
}

// Refused returns the error that an answer is, a *Refusal if it can be read.
func Refused(answer *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxRefusal))
	if err != nil {
		return err
	}
	var status struct{ Message string } // of the API, as when something is forbidden
	if json.Unmarshal(text, &status) == nil && status.Message != "" {
		text = []byte(status.Message)
	}
	said := strings.TrimSpace(printable.Text(string(text)))
	if said == "" {
		said = "the daemon answers " + answer.Status
	}
	return &Refusal{answer.StatusCode, said}
}

// JSON is Do for an answer in JSON, which it decodes into a value.
func (d Daemon) JSON(ctx context.Context, method, path string, into any) error {
	return d.Do(ctx, method, path, func(answer io.Reader) error {
		if err := json.NewDecoder(answer).Decode(into); err != nil {
			return fmt.Errorf("the daemon's answer: %w", err)
		}
		return nil
	})
}
