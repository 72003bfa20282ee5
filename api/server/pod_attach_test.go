package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/jobd/jobd/api/conns"
	"github.com/jobd/jobd/api/reach"
	"github.com/jobd/jobd/runtime"
)

// attacher returns a server with a running container, and a client that attaches to it.
func attacher(
	t *testing.T, transport string, containers ...reach.Containers,
) (ts *testServer, fake fakeContainers, attach func(ctx context.Context, query string, o remotecommand.StreamOptions) error) {
	fake = fakeContainers{ended: make(chan error, 8), said: make(chan error, 8)}
	ts = startServer(t, func(c *Config) {
		c.Containers = fake
		for _, other := range containers {
			c.Containers = other
		}
	})
	ts.mustDo(t, http.MethodPost, "/api/v1/namespaces/default/pods", `{"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}`, 201)
	ts.bind(t, "p", "node", corev1.ContainerStatus{Name: "c", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
	config := &rest.Config{Host: "https://" + ts.tls.String(), BearerToken: ts.adminToken, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	return ts, fake, func(ctx context.Context, query string, o remotecommand.StreamOptions) error {
		to := &url.URL{Scheme: "https", Host: ts.tls.String(), Path: "/api/v1/namespaces/default/pods/p/attach", RawQuery: query}
		executor, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, to.String())
		if transport == "SPDY" {
			executor, err = remotecommand.NewSPDYExecutor(config, http.MethodPost, to)
		}
		if err != nil {
			t.Fatal(err)
		}
		return executor.StreamWithContext(ctx, o)
	}
}

func TestAttach(t *testing.T) {
	for _, transport := range []string{"WebSocket", "SPDY"} {
		t.Run(transport, func(t *testing.T) {
			ts, fake, attach := attacher(t, transport)
			var out bytes.Buffer
			words := strings.Repeat("word\n", 1<<16)
			if err := attach(t.Context(), "stdin=true&stdout=true", remotecommand.StreamOptions{Stdin: strings.NewReader(words), Stdout: &out}); err != nil ||
				out.String() != "p/c\n"+words {
				t.Errorf("got %v, %d bytes", err, out.Len())
			}
			if err := <-fake.said; err != nil {
				t.Errorf("what a client says ends with %v", err)
			}
			if err := attach(t.Context(), "container=other&stdout=true", remotecommand.StreamOptions{Stdout: &out}); err == nil ||
				!strings.Contains(err.Error(), "other") && transport == "SPDY" {
				t.Errorf("another container: %v", err)
			}

			ctx, hangUp := context.WithCancel(t.Context())
			r, _ := io.Pipe()
			if err := attach(ctx, "stdin=true&stdout=true", remotecommand.StreamOptions{Stdin: r, Stdout: onWrite(hangUp)}); !errors.Is(err, context.Canceled) {
				t.Errorf("a client that hangs up: %v", err)
			}
			if err := <-fake.said; err != nil {
				t.Errorf("what a client says that hangs up ends with %v", err)
			}

			attached := make(chan error, 1)
			seen, w := io.Pipe()
			go func() {
				attached <- attach(t.Context(), "stdin=true&stdout=true", remotecommand.StreamOptions{Stdin: r, Stdout: w})
			}()
			if _, err := seen.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = io.Copy(io.Discard, seen) }()
			ts.stop()
			if err := <-fake.said; !errors.Is(err, conns.ErrStopping) {
				t.Errorf("when the server stops, what a client says ends with %v", err)
			}
			if err := <-attached; err == nil {
				t.Error("the client takes the end of the server for the end of the process")
			}
		})
	}
}

// deafContainers have processes that never read.
type deafContainers struct {
	reach.Containers
	attached, left chan struct{}
}

func (d deafContainers) Attach(_ context.Context, _ *corev1.Pod, _ string, a runtime.AttachRequest) error {
	close(d.attached)
	<-a.Left
	close(d.left)
	return nil
}

// someWords are too many for a process that reads nothing, and few enough for the connection to take them: if it did
// not, the server would not hear that the client has left until the client's kernel gives up, after minutes.
type someWords struct {
	io.Reader
	said func() // called when they have been sent
}

func (w someWords) Read(b []byte) (int, error) {
	n, err := w.Reader.Read(b)
	if err != nil {
		w.said()
	}
	return n, err
}

// The runtime is told that a client has left, though what it has said waits for a process that does not read.
func TestClientThatIsGoneWithWordsUnread(t *testing.T) {
	for _, transport := range []string{"WebSocket", "SPDY"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			deaf := deafContainers{attached: make(chan struct{}), left: make(chan struct{})}
			_, _, attach := attacher(t, transport, deaf)
			ctx, hangUp := context.WithCancel(t.Context())
			said := func() {
				<-deaf.attached
				hangUp()
				<-deaf.left // the end of the input must not be what ends it
			}
			if err := attach(
				ctx, "stdin=true&stdout=true",
				remotecommand.StreamOptions{Stdin: someWords{strings.NewReader(strings.Repeat("word\n", 6<<10)), said}, Stdout: io.Discard},
			); err == nil {
				t.Error("attached to the end")
			}
			select {
			case <-deaf.left:
			case <-time.After(time.Minute):
				t.Error("the runtime is not told")
			}
		})
	}
}
