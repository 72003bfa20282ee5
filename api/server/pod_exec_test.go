package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"

	"github.com/jobd/jobd/runtime"
)

// fakeContainers has a few commands, a process that echoes its input, and a port that does the same.
type fakeContainers struct {
	ended chan error
	said  chan error // how the input of the process ended
}

func (f fakeContainers) Attach(ctx context.Context, pod *corev1.Pod, container string, a runtime.AttachRequest) error {
	fmt.Fprintf(a.Stdout, "%s/%s\n", pod.Name, container)
	if a.Stdin != nil {
		_, err := io.Copy(a.Stdout, a.Stdin)
		f.said <- err
	}
	return nil
}

func (f fakeContainers) Dial(_ context.Context, pod *corev1.Pod, port uint16) (net.Conn, error) {
	if port != 80 {
		return nil, fmt.Errorf("dial tcp4 127.0.0.1:%d: connect: %w", port, syscall.ECONNREFUSED)
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		defer listener.Close() // not earlier: that would cut off a connection that is not accepted yet
		if c, err := listener.Accept(); err == nil {
			defer c.Close()
			fmt.Fprintf(c, "%s\n", pod.Name)
			_, err := io.Copy(c, c)
			f.ended <- err
		}
	}()
	return net.Dial("tcp4", listener.Addr().String())
}

func (f fakeContainers) DialAddress(ctx context.Context, pod *corev1.Pod, at netip.AddrPort) (net.Conn, error) {
	return f.Dial(ctx, pod, at.Port())
}

func (f fakeContainers) Exec(ctx context.Context, pod *corev1.Pod, container string, e runtime.ExecRequest) (int, error) {
	switch e.Args[0] {
	case "cat":
		fmt.Fprintf(e.Stderr, "%s/%s\n", pod.Name, container)
		_, err := io.Copy(e.Stdout, e.Stdin)
		return 7, err
	case "size":
		select {
		case size := <-e.Resize:
			fmt.Fprintf(e.Stdout, "%dx%d tty=%t stderr=%t", size.Width, size.Height, e.TTY, e.Stderr != nil)
		case <-e.Left:
		}
		return 0, nil
	case "sleep":
		fmt.Fprintln(e.Stdout, "asleep")
		select {
		case <-e.Left:
		case <-ctx.Done():
		}
		f.ended <- ctx.Err()
		return 0, ctx.Err()
	}
	return 0, fmt.Errorf("exec: %q is not there: %w", e.Args[0], errdefs.ErrFailedPrecondition)
}

// onWrite is called when something is written.
type onWrite func()

func (f onWrite) Write(b []byte) (int, error) { f(); return len(b), nil }

type oneSize remotecommand.TerminalSize

func (s *oneSize) Next() *remotecommand.TerminalSize {
	if s.Width == 0 {
		return nil
	}
	size := remotecommand.TerminalSize(*s)
	s.Width = 0
	return &size
}

func TestExec(t *testing.T) {
	fake := fakeContainers{ended: make(chan error, 1)}
	ts := startServer(t, func(c *Config) { c.Containers = fake })
	ts.mustDo(t, http.MethodPost, "/api/v1/namespaces/default/pods", `{"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}`, 201)
	config := &rest.Config{Host: "https://" + ts.tls.String(), BearerToken: ts.adminToken, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	for _, transport := range []string{"WebSocket", "SPDY"} {
		t.Run(transport, func(t *testing.T) {
			run := func(ctx context.Context, o remotecommand.StreamOptions, command ...string) error {
				query := url.Values{
					"command": command, "stdin": {fmt.Sprint(o.Stdin != nil)}, "stdout": {fmt.Sprint(o.Stdout != nil)},
					"stderr": {fmt.Sprint(o.Stderr != nil)}, "tty": {fmt.Sprint(o.Tty)},
				}
				to := &url.URL{Scheme: "https", Host: ts.tls.String(), Path: "/api/v1/namespaces/default/pods/p/exec", RawQuery: query.Encode()}
				executor, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, to.String())
				if transport == "SPDY" {
					executor, err = remotecommand.NewSPDYExecutor(config, http.MethodPost, to)
				}
				if err != nil {
					t.Fatal(err)
				}
				return executor.StreamWithContext(ctx, o)
			}
			ts.bind(t, "p", "node", corev1.ContainerStatus{Name: "c"})
			var out, errOut bytes.Buffer
			if err := run(t.Context(), remotecommand.StreamOptions{Stdout: &out}, "cat"); err == nil ||
				!strings.Contains(err.Error(), `container "c" in pod "p" is not running`) && transport == "SPDY" {
				t.Errorf("before it runs: %v", err)
			}
			ts.bind(t, "p", "node", corev1.ContainerStatus{Name: "c", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
			in := strings.Repeat("word\n", 1<<16)
			err := run(t.Context(), remotecommand.StreamOptions{Stdin: strings.NewReader(in), Stdout: &out, Stderr: &errOut}, "cat")
			var exit utilexec.CodeExitError
			if !errors.As(err, &exit) || exit.Code != 7 || out.String() != in || errOut.String() != "p/c\n" {
				t.Errorf("got %v, %d bytes, %q", err, out.Len(), errOut.String())
			}
			out.Reset()
			err = run(
				t.Context(),
				remotecommand.StreamOptions{Stdin: strings.NewReader(""), Stdout: &out, Tty: true, TerminalSizeQueue: &oneSize{Width: 77, Height: 33}},
				"size",
			)
			if err != nil || out.String() != "77x33 tty=true stderr=false" {
				t.Errorf("got %v, %q", err, out.String())
			}
			if err := run(t.Context(), remotecommand.StreamOptions{Stdout: &out}, "other"); err == nil ||
				!strings.Contains(err.Error(), `"other" is not there`) {
				t.Errorf("a command that cannot be started: %v", err)
			}
			ctx, hangUp := context.WithCancel(t.Context())
			if err := run(ctx, remotecommand.StreamOptions{Stdout: onWrite(hangUp)}, "sleep"); !errors.Is(err, context.Canceled) {
				t.Errorf("a client that hangs up: %v", err)
			}
			select {
			case err := <-fake.ended:
				if err != nil {
					t.Errorf("the process ends with its client: %v", err)
				}
			case <-time.After(time.Minute):
				t.Error("nobody notices that it has hung up")
			}
		})
	}
	t.Run("WebSocket of the fourth version", func(t *testing.T) {
		executor, err := remotecommand.NewWebSocketExecutorForProtocols(
			config, http.MethodGet,
			"https://"+ts.tls.String()+"/api/v1/namespaces/default/pods/p/exec?command=size&tty=true&stdout=true",
			"v4.channel.k8s.io",
		)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		err = executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &out, Tty: true, TerminalSizeQueue: &oneSize{Width: 77, Height: 33}})
		if err != nil || out.String() != "77x33 tty=true stderr=false" {
			t.Errorf("got %v, %q", err, out.String())
		}
	})
	if lines := strings.Split(ts.log.String(), "\n"); !slices.ContainsFunc(lines, func(line string) bool {
		return strings.Contains(line, "object=pods/default/p/exec") && strings.Contains(line, "verb=get")
	}) {
		t.Errorf("nobody logs who ran commands:\n%s", strings.Join(lines, "\n"))
	}
}

func TestNothingReachesIntoPodsOfACluster(t *testing.T) {
	ts := startServer(t, func(c *Config) { c.Containers, c.NodeName = fakeContainers{}, "here" })
	const pods = "/api/v1/namespaces/default/pods"
	ts.mustDo(t, http.MethodPost, pods, `{"metadata": {"name": "p"}, "spec": {"nodeName": "prod", "schedulerName": "clusters.jobd.dev/prod",
		"containers": [{"name": "c", "image": "i"}]}}`, 201)
	for _, way := range []string{"exec?command=date&stdout=true", "attach?stdout=true", "portforward", "proxy/"} {
		if said := string(ts.mustDo(t, http.MethodGet, pods+"/p/"+way, "", 400)); !strings.Contains(said, `runs in the cluster \"prod\"`) {
			t.Errorf("%s: %s", way, said)
		}
	}
}
