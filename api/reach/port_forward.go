package reach

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

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

	"github.com/jobd/jobd/api/frames"
)

// PortForward serves .../pods/NAME/portforward: a connection that carries others, to ports in the network of the
// pod. It comes as SPDY, as SPDY in a WebSocket, or as a WebSocket with two channels for each port.
type PortForward struct{ *Pods }

var _ rest.Connecter = PortForward{}

func (PortForward) New() apiruntime.Object { return &corev1.PodPortForwardOptions{} }

func (PortForward) NewConnectOptions() (apiruntime.Object, bool, string) {
	return &corev1.PodPortForwardOptions{}, false, ""
}

func (f PortForward) Connect(ctx context.Context, name string, options apiruntime.Object, responder rest.Responder) (http.Handler, error) {
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
	if len(ports) > maxForwarded {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%d ports are asked for, and %d are the most", len(ports), maxForwarded))
	}
	return session(responder, func(w http.ResponseWriter, r *http.Request, v *visit) {
		tunnel := wsstream.IsWebSocketRequestWithTunnelingProtocol(r)
		if wsstream.IsWebSocketRequest(r) && !tunnel && len(ports) == 0 {
			responder.Error(apierrors.NewBadRequest(`query parameter "ports" is required`))
			return
		}
		ctx := r.Context()
		w = &endedWriter{w, ctx}
		if tunnel {
			if w, r = openTunnel(w, r, v); w == nil {
				return // the client was told
			}
			w, r = frames.Bound(w, r, frames.OfSessions, nil)
		}
		to := &forwarding{ctx: ctx, request: r.Context(), visit: v, containers: f.containers, pod: pod, open: make(chan struct{}, maxForwarded)}
		v.beforeEnd = to.deliver
		portforward.ServePortForward(w, r, to, pod.Name, string(pod.UID), &portforward.V4Options{Ports: ports},
			idleTime, remotecommand.DefaultStreamCreationTimeout, portforward.SupportedProtocols)
	}), nil
}

const (
	// maxForwarded is how many connections may be forwarded by one at a time.
	maxForwarded = 256
	// deliveryTime is how long a pod may take none of what a client has sent that has left, or take to close the connection
	// afterwards.
	deliveryTime = 30 * time.Second
	// settledTime is after how long without another piece everything that a client has sent is taken to have arrived.
	settledTime = 200 * time.Millisecond
	// graceTime is how long a client may pause that still sends when the pod has nothing more to say, as with containerd.
	graceTime = time.Second
)

// forwarding forwards the connections of one client.
type forwarding struct {
	ctx        context.Context // of the client's request
	request    context.Context // of that by which the streams came, which may be within the other one's connection
	visit      *visit
	containers Containers
	pod        *corev1.Pod
	open       chan struct{} // holds one for each connection

	mu         sync.Mutex
	deliveries []*delivery // of the connections
}

// PortForward forwards one connection to its end. The library's context knows nothing of the client.
func (f *forwarding) PortForward(_ context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	sent := io.Reader(stream)
	if s, ok := stream.(httpstream.Stream); ok {
		var end func()
		sent, end = frames.Reader(f.request, s)
		defer func() {
			s.Reset() // or else it would be read for as long as the client leaves it open
			end()
		}()
	}
	select {
	case f.open <- struct{}{}:
		defer func() { <-f.open }()
	default:
		return fmt.Errorf("%d connections are forwarded already", maxForwarded)
	}
	d := &delivery{done: make(chan struct{})}
	defer f.track(d)()
	conn, err := f.containers.Dial(f.ctx, f.pod, uint16(port))
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(f.ctx, func() { conn.Close() })()
	go func() {
		defer close(d.done)
		d.copy(conn, sent, f.visit.left)
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite() // there may still be an answer
		}
	}()
	// How a connection ends is a matter of its two ends.
	if _, err := io.Copy(stream, conn); err == nil && !f.visit.hasLeft() {
		_ = stream.Close() // the pod has no more to say, and may still listen
		d.await(f.ctx, graceTime)
		return nil
	}
	// The client is not there any more. Closing a connection on which something is unread would lose what is under way.
	d.await(f.ctx, deliveryTime)
	_ = conn.SetReadDeadline(time.Now().Add(deliveryTime))
	_, _ = io.Copy(io.Discard, conn)
	return nil
}

// track keeps a delivery for as long as its connection is forwarded.
func (f *forwarding) track(d *delivery) (end func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deliveries = append(f.deliveries, d)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.deliveries = slices.DeleteFunc(f.deliveries, func(other *delivery) bool { return other == d })
	}
}

// deliver waits until what the client has sent is delivered. The library resets all streams, with what is still in them, when it
// reads the end of the connection, and by then may not have begun to forward what came just before.
func (f *forwarding) deliver() {
	f.visit.leave()
	ticker := time.NewTicker(settledTime / 10)
	defer ticker.Stop()
	awaited := map[*delivery]bool{}
	for left := time.Now(); ; {
		f.mu.Lock()
		fresh := slices.DeleteFunc(slices.Clone(f.deliveries), func(d *delivery) bool { return awaited[d] })
		f.mu.Unlock()
		for _, d := range fresh {
			d.await(f.ctx, settledTime)
			awaited[d] = true
		}
		if len(fresh) > 0 {
			continue
		}
		if since := time.Since(left); since > graceTime || since > settledTime && len(awaited) > 0 {
			return
		}
		select {
		case <-f.ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// delivery copies what a client sends by one connection to a pod.
type delivery struct {
	// waits is since when it has waited for the client, in nanoseconds, and 0 while there is something to be delivered.
	waits atomic.Int64
	done  chan struct{} // closed at its end
}

func (d *delivery) copy(to net.Conn, from io.Reader, left <-chan struct{}) {
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-left: // also in the middle of a write
			_ = to.SetWriteDeadline(time.Now().Add(deliveryTime))
		case <-ended:
		}
	}()
	for buffer := make([]byte, 32<<10); ; {
		d.waits.Store(time.Now().UnixNano())
		n, err := from.Read(buffer)
		d.waits.Store(0)
		if err != nil {
			return
		}
		select {
		case <-left:
			_ = to.SetWriteDeadline(time.Now().Add(deliveryTime))
		default:
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			d.waits.Store(time.Now().UnixNano())
			_, _ = io.Copy(io.Discard, from) // the pod need not read all of it
			return
		}
	}
}

// await waits until nothing has come from the client for a while, or everything is delivered.
func (d *delivery) await(ctx context.Context, pause time.Duration) {
	ticker := time.NewTicker(settledTime / 10)
	defer ticker.Stop()
	for {
		if since := d.waits.Load(); since > 0 && time.Since(time.Unix(0, since)) > pause {
			return
		}
		select {
		case <-d.done:
			return
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// endedWriter ends the connection, once it is taken over, with a context.
type endedWriter struct {
	http.ResponseWriter
	ctx context.Context
}

func (w *endedWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		context.AfterFunc(w.ctx, func() { conn.Close() })
	}
	return conn, buffered, err
}

// openTunnel turns a WebSocket into the connection on which the client asks for SPDY.
func openTunnel(w http.ResponseWriter, r *http.Request, v *visit) (http.ResponseWriter, *http.Request) {
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
	return &tunnelWriter{conn: &visitConn{tunneling.NewTunnelingConnection("server", socket), v}, header: http.Header{}}, inner
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
