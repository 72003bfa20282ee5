package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/apiserver/pkg/registry/rest"
	tunneling "k8s.io/client-go/tools/portforward"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// podPortForward serves .../pods/NAME/portforward: a connection that carries others, to ports in the network of the
// pod. It comes as SPDY, as SPDY in a WebSocket, or as a WebSocket with two channels for each port.
type podPortForward struct{ *reach }

var _ rest.Connecter = podPortForward{}

func (podPortForward) New() apiruntime.Object { return &corev1.PodPortForwardOptions{} }

func (podPortForward) NewConnectOptions() (apiruntime.Object, bool, string) {
	return &corev1.PodPortForwardOptions{}, false, ""
}

func (f podPortForward) Connect(ctx context.Context, name string, options apiruntime.Object, responder rest.Responder) (http.Handler, error) {
	if err := f.mayConnect(ctx); err != nil {
		return nil, err
	}
	pod, err := f.pod(ctx, name)
	if err != nil {
		return nil, err
	}
	if pod.Status.Phase != corev1.PodRunning {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("unable to forward port because pod is not running. Current status=%s", pod.Status.Phase))
	}
	ports := options.(*corev1.PodPortForwardOptions).Ports
	return session(responder, func(w http.ResponseWriter, r *http.Request) {
		tunnel := wsstream.IsWebSocketRequestWithTunnelingProtocol(r)
		if wsstream.IsWebSocketRequest(r) && !tunnel && len(ports) == 0 {
			responder.Error(apierrors.NewBadRequest(`query parameter "ports" is required`))
			return
		}
		ctx := r.Context()
		w = &endedWriter{w, ctx}
		if tunnel {
			if w, r = openTunnel(w, r); w == nil {
				return // the client was told
			}
		}
		to := &forwarding{ctx: ctx, containers: f.containers, pod: pod, open: make(chan struct{}, maxForwarded)}
		portforward.ServePortForward(w, r, to, pod.Name, string(pod.UID), &portforward.V4Options{Ports: ports},
			idleTime, remotecommand.DefaultStreamCreationTimeout, portforward.SupportedProtocols)
	}), nil
}

// maxForwarded is how many connections may be forwarded by one at a time.
const maxForwarded = 256

// forwarding forwards the connections of one client.
type forwarding struct {
	ctx        context.Context // of the client's request
	containers Containers
	pod        *corev1.Pod
	open       chan struct{} // holds one for each connection
}

// PortForward forwards one connection to its end. The library's context knows nothing of the client.
func (f *forwarding) PortForward(_ context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	select {
	case f.open <- struct{}{}:
		defer func() { <-f.open }()
	default:
		return fmt.Errorf("%d connections are forwarded already", maxForwarded)
	}
	conn, err := f.containers.Dial(f.ctx, f.pod, uint16(port))
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(f.ctx, func() { conn.Close() })()
	go func() {
		_, _ = io.Copy(conn, stream)
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite() // there may still be an answer
		}
	}()
	_, _ = io.Copy(stream, conn) // how a connection ends is a matter of its two ends
	return nil
}

// endedWriter ends the connection, once it is taken over, with a context.
type endedWriter struct {
	http.ResponseWriter
	ctx context.Context
}

func (w *endedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *endedWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		context.AfterFunc(w.ctx, func() { conn.Close() })
	}
	return conn, buffered, err
}

// openTunnel turns a WebSocket into the connection on which the client asks for SPDY.
func openTunnel(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, *http.Request) {
	if !slices.Contains(websocket.Subprotocols(r), portforward.WebsocketsSPDYTunnelingPortForwardV1) {
		http.Error(w, fmt.Sprintf("unable to upgrade: the only protocol is %s",
			portforward.WebsocketsSPDYTunnelingPortForwardV1), http.StatusForbidden)
		return nil, nil
	}
	upgrader := websocket.Upgrader{
		CheckOrigin:  func(*http.Request) bool { return true }, // a browser has no credentials for this
		Subprotocols: []string{portforward.WebsocketsSPDYTunnelingPortForwardV1},
	}
	socket, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return nil, nil
	}
	inner := r.Clone(r.Context())
	inner.Method = http.MethodPost
	inner.Header = http.Header{}
	inner.Header.Set(httpstream.HeaderConnection, httpstream.HeaderUpgrade)
	inner.Header.Set(httpstream.HeaderUpgrade, spdy.HeaderSpdy31)
	inner.Header.Set(httpstream.HeaderProtocolVersion, portforward.ProtocolV1Name)
	return &tunnelWriter{conn: tunneling.NewTunnelingConnection("server", socket), header: http.Header{}}, inner
}

// tunnelWriter is the ResponseWriter of a request whose response has been sent: the connection can only be taken over.
type tunnelWriter struct {
	conn   net.Conn
	header http.Header
}

func (w *tunnelWriter) Header() http.Header         { return w.header }
func (w *tunnelWriter) WriteHeader(int)             {}
func (w *tunnelWriter) Write(b []byte) (int, error) { return len(b), nil }

func (w *tunnelWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return w.conn, bufio.NewReadWriter(bufio.NewReader(w.conn), bufio.NewWriter(w.conn)), nil
}
