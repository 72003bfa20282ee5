package worker

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/netns"
)

// target is a running container that probes and hooks are run against.
type target struct {
	runtime   runtime.Executor
	container *corev1.Container
	id        string
	pid       int
	ip        string // of the pod; empty: it is reached from inside its network namespace
}

const (
	// maxAnswer is how much is read of an answer, and of the output of a command that fails kept for the message.
	maxAnswer = 10 << 10
	// maxAnswerHeader is how long the header of an answer may be, in bytes. What is held of short lines is thirty times as long, and
	// many probes ask at a time.
	maxAnswerHeader = 16 << 10
	// maxRedirects is how many redirects an HTTP probe follows, as in a cluster.
	maxRedirects = 10
)

// probe asks a container once. It returns what is doubtful about a success.
func (t target) probe(ctx context.Context, h corev1.ProbeHandler) (doubt string, err error) {
	switch {
	case h.Exec != nil:
		err = t.exec(ctx, h.Exec)
	case h.HTTPGet != nil:
		return t.httpProbe(ctx, h.HTTPGet)
	case h.TCPSocket != nil:
		err = t.tcp(ctx, h.TCPSocket)
	case h.GRPC != nil:
		err = t.grpc(ctx, h.GRPC)
	}
	return "", err
}

// hook runs a hook of a container. It returns what is doubtful about a success.
func (t target) hook(ctx context.Context, h *corev1.LifecycleHandler) (doubt string, err error) {
	switch {
	case h.Exec != nil:
		err = t.exec(ctx, h.Exec)
	case h.HTTPGet != nil:
		return t.httpHook(ctx, h.HTTPGet)
	case h.TCPSocket != nil:
		err = t.tcp(ctx, h.TCPSocket)
	case h.Sleep != nil:
		pause(ctx, podspec.Seconds(h.Sleep.Seconds))
	}
	return "", err
}

// unanswered is the error of a check that could not be made. It counts neither as a success nor as a failure, as in a
// cluster.
type unanswered struct{ error }

func (t target) exec(ctx context.Context, a *corev1.ExecAction) error {
	var limit time.Duration
	if end, ok := ctx.Deadline(); ok {
		limit = time.Until(end).Round(time.Second)
	}
	var out answer
	code, err := t.runtime.Exec(ctx, t.id, runtime.ExecRequest{Args: a.Command, Stdout: &out, Stderr: &out})
	switch {
	case errdefs.IsNotImplemented(err):
		return nil // there is no way to find out that it is unhealthy
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("command timed out: %q timed out after %s", strings.Join(a.Command, " "), limit)
	case err != nil:
		return unanswered{err}
	case code != 0 && out.kept.Len() > 0:
		return errors.New(out.kept.String())
	case code != 0:
		return fmt.Errorf("command %q exited with %d", a.Command, code)
	}
	return nil
}

// answer keeps the beginning of what is written to it.
type answer struct {
	mu   sync.Mutex
	kept bytes.Buffer
}

func (a *answer) Write(b []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.kept.Write(b[:min(len(b), maxAnswer-a.kept.Len())])
	return len(b), nil
}

// port returns a port by its number, or by its name among those of the container.
func (t target) port(p intstr.IntOrString) (string, error) {
	if p.Type == intstr.Int {
		return strconv.Itoa(p.IntValue()), nil
	}
	for _, known := range t.container.Ports {
		if known.Name == p.StrVal {
			return strconv.Itoa(int(known.ContainerPort)), nil
		}
	}
	return "", unanswered{fmt.Errorf("the container has no port %q", p.StrVal)}
}

// address returns the address of a port, and how it is dialled.
func (t target) address(host string, port intstr.IntOrString) (string, dial, error) {
	number, err := t.port(port)
	if err != nil {
		return "", nil, err
	}
	var d net.Dialer
	switch {
	case host != "":
		return net.JoinHostPort(host, number), d.DialContext, nil
	case t.ip != "":
		return net.JoinHostPort(t.ip, number), d.DialContext, nil
	}
	return net.JoinHostPort("127.0.0.1", number), t.dialInside, nil
}

type dial func(ctx context.Context, network, address string) (net.Conn, error)

// dialInside dials from the network namespace of the container.
func (t target) dialInside(ctx context.Context, network, address string) (net.Conn, error) {
	return netns.Dial(ctx, t.id, t.pid, network, address)
}

func (t target) tcp(ctx context.Context, a *corev1.TCPSocketAction) error {
	address, dial, err := t.address(a.Host, a.Port)
	if err != nil {
		return err
	}
	conn, err := dial(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// httpProbe succeeds if the answer's status is below 400, as in a cluster. It doubts redirects to other hosts, which are
// not followed.
func (t target) httpProbe(ctx context.Context, a *corev1.HTTPGetAction) (doubt string, err error) {
	reply, err := t.httpGet(ctx, a)
	switch {
	case err != nil:
		return "", err
	case reply.status < 200 || reply.status >= 400:
		// Without the body: whoever may see the events of a pod must not read what only this host may ask for.
		return "", fmt.Errorf("HTTP probe failed with statuscode: %d", reply.status)
	case reply.status < 300:
		return "", nil
	}
	doubt = "Probe terminated redirects"
	if a.Host == "" { // the body is the pod's own
		doubt += ", Response body: " + reply.body
	}
	return doubt, nil
}

// httpHook succeeds whatever the status of the answer is, as in a cluster. A server that speaks no TLS is asked without
// it.
func (t target) httpHook(ctx context.Context, a *corev1.HTTPGetAction) (doubt string, err error) {
	_, err = t.httpGet(ctx, a)
	if a.Scheme != corev1.URISchemeHTTPS || !errors.Is(err, http.ErrSchemeMismatch) {
		return "", err
	}
	plain := a.DeepCopy()
	plain.Scheme = corev1.URISchemeHTTP
	plain.HTTPHeaders = slices.DeleteFunc(plain.HTTPHeaders, func(h corev1.HTTPHeader) bool {
		return strings.EqualFold(h.Name, "Authorization")
	})
	answer, err := t.httpGet(ctx, plain)
	return "request to HTTPS lifecycle hook " + answer.host + " got HTTP response, retry with HTTP succeeded", err
}

// reply is an answer to an HTTP request.
type reply struct {
	host   string // with the port
	status int
	body   string // its beginning
}

func (t target) httpGet(ctx context.Context, a *corev1.HTTPGetAction) (reply, error) {
	address, dial, err := t.address(a.Host, a.Port)
	if err != nil {
		return reply{}, err
	}
	path, err := url.Parse(a.Path)
	if err != nil {
		path = &url.URL{Path: a.Path}
	}
	scheme := strings.ToLower(string(a.Scheme))
	if scheme == "" {
		scheme = "http"
	}
	path.Scheme, path.Host = scheme, address
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, path.String(), nil)
	if err != nil {
		return reply{}, err
	}
	for _, h := range a.HTTPHeaders {
		if strings.EqualFold(h.Name, "Host") {
			r.Host = h.Value
		}
		r.Header.Add(h.Name, h.Value) // a name may be listed several times
	}
	for name, value := range map[string]string{"User-Agent": "jobd-probe", "Accept": "*/*"} {
		if len(r.Header.Values(name)) == 0 {
			r.Header.Set(name, value)
		}
	}
	// Probes do not verify certificates, as in a cluster.
	transport := &http.Transport{
		DialContext: dial, DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		MaxResponseHeaderBytes: maxAnswerHeader,
	}
	if a.Protocol != nil && *a.Protocol == corev1.HTTPProtocolHTTP2 {
		transport.Protocols = &http.Protocols{}
		transport.Protocols.SetUnencryptedHTTP2(true)
		defer transport.CloseIdleConnections()
	}
	client := http.Client{
		Transport: transport,
		CheckRedirect: func(next *http.Request, via []*http.Request) error {
			switch {
			case next.URL.Hostname() != r.URL.Hostname():
				return http.ErrUseLastResponse // redirects to other hosts are not followed
			case len(via) >= maxRedirects:
				return fmt.Errorf("stopped after %d redirects", maxRedirects)
			}
			return nil
		},
	}
	answered, err := client.Do(r)
	if err != nil {
		return reply{}, err
	}
	defer answered.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answered.Body, maxAnswer))
	return reply{address, answered.StatusCode, string(body)}, err
}

func (t target) grpc(ctx context.Context, a *corev1.GRPCAction) error {
	address, dial, err := t.address("", intstr.FromInt32(a.Port))
	if err != nil {
		return err
	}
	secret := insecure.NewCredentials()
	if a.Mode != nil && *a.Mode == corev1.GRPCProbeModeTLS {
		secret = credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})
	}
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(secret),
		grpc.WithMaxHeaderListSize(maxAnswerHeader), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dial(ctx, "tcp", address)
		}))
	if err != nil {
		return err
	}
	defer conn.Close()
	service := ""
	if a.Service != nil {
		service = *a.Service
	}
	reply, err := health.NewHealthClient(conn).Check(ctx, &health.HealthCheckRequest{Service: service})
	if err != nil {
		return err
	}
	if reply.Status != health.HealthCheckResponse_SERVING {
		return fmt.Errorf("service unhealthy (responded with %q)", reply.Status)
	}
	return nil
}
