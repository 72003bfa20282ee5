package reach

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"github.com/jobd/jobd/api/conns"
	"github.com/jobd/jobd/api/frames"
	"github.com/jobd/jobd/runtime"
)

// streamOptions holds which streams a client asks for.
type streamOptions struct{ Stdin, Stdout, Stderr, TTY bool }

// checkStreams refuses a request for no stream at all.
func checkStreams(o streamOptions) error {
	if !o.Stdin && !o.Stdout && !o.Stderr {
		return apierrors.NewBadRequest("you must specify at least 1 of stdin, stdout, stderr")
	}
	return nil
}

// serveStreams opens the streams of a request, calls use with them, whose context ends with the server, and sends the client the
// outcome. A client that has left finds nobody waiting for it; its input can still be read to its end.
func serveStreams(
	w http.ResponseWriter, r *http.Request, v *visit, o streamOptions,
	use func(ctx context.Context, s *streams, sizes <-chan runtime.TerminalSize) *metav1.Status,
) {
	if o.TTY {
		o.Stderr = false // a terminal has one output
	}
	s, ok := openStreams(w, r, o)
	if !ok {
		return // the client was told
	}
	closing, end := make(chan struct{}), s.close
	s.close = sync.OnceFunc(func() {
		close(closing)
		end()
	})
	defer s.close()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	// A client that does not receive the end would take it for a success.
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(over)
		if errors.Is(context.Cause(ctx), conns.ErrStopping) {
			s.tell(streamStatus(conns.ErrStopping))
		}
		s.close()
	})
	defer func() {
		if !stop() {
			<-over // or else the connection ends before the client was told
		}
	}()

	sizes := make(chan runtime.TerminalSize)
	go func() {
		s.wait(ctx, sizes)
		select {
		case <-closing: // with words of farewell, for which the client has to be there
		case <-ctx.Done(): // the same
		default:
			v.leave()
		}
	}()
	words := &words{Reader: s.stdin, ended: make(chan struct{})}
	if o.Stdin {
		s.stdin = words
	}
	status := use(ctx, s, sizes)
	if ctx.Err() != nil || v.hasLeft() {
		return
	}
	s.tell(status)
	if o.Stdin {
		// Closing the connection on a client that is still writing would make it lose what it has not yet read.
		select {
		case <-words.ended:
		case <-v.left:
		case <-ctx.Done():
		case <-time.After(lingerTime):
		}
	}
}

// words reads what a client writes.
type words struct {
	io.Reader
	ended chan struct{} // closed at their end
	end   sync.Once
}

func (w *words) Read(b []byte) (int, error) {
	n, err := w.Reader.Read(b)
	if err != nil {
		w.end.Do(func() { close(w.ended) })
	}
	return n, err
}

// longestSize is how many bytes the size of a terminal may have.
const longestSize = 1 << 10

// readSizes passes the sizes of the client's terminal to the process, until the stream ends or has something else.
func readSizes(ctx context.Context, r io.Reader, sizes chan<- runtime.TerminalSize) {
	bounded := &io.LimitedReader{R: r}
	for d := json.NewDecoder(bounded); ; {
		bounded.N = longestSize
		var size runtime.TerminalSize
		if d.Decode(&size) != nil {
			return
		}
		select {
		case sizes <- size:
		case <-ctx.Done():
			return
		}
	}
}

// streams holds the streams of a process on a connection to a client. Those that the client did not ask for are nil.
type streams struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	status         io.Writer
	// statusText is for clients of a protocol from before version 4: they get the message of an error, and nothing
	// after a success.
	statusText bool
	// wait passes on sizes of the terminal until the client hangs up, or ctx ends.
	wait func(ctx context.Context, sizes chan<- runtime.TerminalSize)
	// close ends the connection. It may be called again.
	close func()
}

const (
	// statusTime is how long a client may take to read how its process ended.
	statusTime = 10 * time.Second
	// lingerTime is how long it may then take to close the connection, if it is still writing.
	lingerTime = time.Second
)

// tell writes how the process ended.
func (s *streams) tell(status *metav1.Status) {
	content, err := json.Marshal(status)
	if err != nil {
		return // it is made of strings
	}
	if s.statusText {
		if status.Status == metav1.StatusSuccess {
			return
		}
		content = []byte(status.Message)
	}
	late := time.AfterFunc(statusTime, s.close)
	defer late.Stop()
	_, _ = s.status.Write(content) // a client that is gone need not know
}

// openStreams turns the connection of a request into one of streams. If it cannot, it has answered the request.
func openStreams(w http.ResponseWriter, r *http.Request, o streamOptions) (*streams, bool) {
	if wsstream.IsWebSocketRequest(r) {
		return openWebSocket(w, r, o)
	}
	return openSPDY(w, r, o)
}

// openWebSocket opens a channel for each stream: the first byte of a message is its number.
func openWebSocket(w http.ResponseWriter, r *http.Request, o streamOptions) (*streams, bool) {
	kinds := make([]wsstream.ChannelType, 5)
	for i, wanted := range map[int]bool{remotecommand.StreamStdOut: o.Stdout, remotecommand.StreamStdErr: o.Stderr} {
		kinds[i] = wsstream.IgnoreChannel
		if wanted {
			kinds[i] = wsstream.WriteChannel
		}
	}
	kinds[remotecommand.StreamStdIn] = wsstream.IgnoreChannel
	if o.Stdin {
		kinds[remotecommand.StreamStdIn] = wsstream.ReadChannel
	}
	kinds[remotecommand.StreamErr], kinds[remotecommand.StreamResize] = wsstream.WriteChannel, wsstream.ReadChannel
	protocols := wsstream.NewDefaultChannelProtocols(kinds)
	protocols[remotecommand.StreamProtocolV5Name] = wsstream.ChannelProtocolConfig{Binary: true, Channels: kinds}
	protocols[remotecommand.StreamProtocolV4Name] = protocols[remotecommand.StreamProtocolV5Name]
	protocols["v4."+wsstream.Base64ChannelWebSocketProtocol] = wsstream.ChannelProtocolConfig{Channels: kinds}
	conn := wsstream.NewConn(protocols)
	conn.SetIdleTimeout(idleTime)
	// It logs as an error that one side has closed the connection, which is normal.
	r = r.WithContext(klog.NewContext(r.Context(), klog.Logger{}))
	protocol, channels, err := conn.Open(w, r)
	if err != nil {
		return nil, false
	}
	s := &streams{
		status:     channels[remotecommand.StreamErr],
		statusText: !strings.HasPrefix(protocol, "v"),
		// This channel is closed only with the connection.
		wait: func(ctx context.Context, sizes chan<- runtime.TerminalSize) {
			readSizes(ctx, channels[remotecommand.StreamResize], sizes)
			_, _ = io.Copy(io.Discard, channels[remotecommand.StreamResize])
		},
		close: sync.OnceFunc(func() { conn.Close() }),
	}
	if o.Stdin {
		s.stdin = channels[remotecommand.StreamStdIn]
	}
	if o.Stdout {
		s.stdout = channels[remotecommand.StreamStdOut]
	}
	if o.Stderr {
		s.stderr = channels[remotecommand.StreamStdErr]
	}
	// As from an API server, a first message without content says that the connection is established.
	first := s.status
	switch {
	case o.Stdout:
		first = s.stdout
	case o.Stderr:
		first = s.stderr
	}
	// Only kubectl speaks v5; it does not wait for this, and before 1.37 complains when it comes too early.
	if protocol != remotecommand.StreamProtocolV5Name {
		_, _ = first.Write(nil)
	}
	return s, true
}

var errUnexpectedStream = errors.New("no further stream is expected")

// openSPDY waits for the streams that the client makes.
func openSPDY(w http.ResponseWriter, r *http.Request, o streamOptions) (*streams, bool) {
	if _, err := httpstream.Handshake(r, w, []string{remotecommand.StreamProtocolV4Name}); err != nil {
		return nil, false // it has told the client
	}
	type arrival struct {
		stream httpstream.Stream
		agreed <-chan struct{}
	}
	arrivals := make(chan arrival)
	opened := make(chan struct{})
	defer close(opened)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(stream httpstream.Stream, agreed <-chan struct{}) error {
		select {
		case arrivals <- arrival{stream, agreed}:
			return nil
		case <-opened:
			return errUnexpectedStream
		}
	})
	if conn == nil {
		return nil, false
	}
	conn.SetIdleTimeout(idleTime)
	missing := map[string]bool{corev1.StreamTypeError: true}
	for name, wanted := range map[string]bool{
		corev1.StreamTypeStdin: o.Stdin, corev1.StreamTypeStdout: o.Stdout, corev1.StreamTypeStderr: o.Stderr,
		corev1.StreamTypeResize: o.TTY,
	} {
		if wanted {
			missing[name] = true
		}
	}
	var sizes io.Reader
	s := &streams{
		wait: func(ctx context.Context, to chan<- runtime.TerminalSize) {
			if sizes != nil {
				go readSizes(ctx, sizes, to)
			}
			select {
			case <-conn.CloseChan():
			case <-ctx.Done():
			}
		},
		close: sync.OnceFunc(func() { conn.Close() }),
	}
	late := time.NewTimer(remotecommand.DefaultStreamCreationTimeout)
	defer late.Stop()
	for len(missing) > 0 {
		select {
		case a := <-arrivals:
			name := a.stream.Headers().Get(corev1.StreamType)
			if !missing[name] {
				s.close()
				return nil, false
			}
			delete(missing, name)
			<-a.agreed
			switch name {
			case corev1.StreamTypeStdin:
				s.stdin, _ = frames.Reader(r.Context(), a.stream)
			case corev1.StreamTypeStdout:
				s.stdout = a.stream
			case corev1.StreamTypeStderr:
				s.stderr = a.stream
			case corev1.StreamTypeError:
				s.status = a.stream
			case corev1.StreamTypeResize:
				sizes, _ = frames.Reader(r.Context(), a.stream)
			}
		case <-late.C:
			s.close()
			return nil, false
		case <-conn.CloseChan(): // the client's end; ours is open
			s.close()
			return nil, false
		}
	}
	return s, true
}

// streamStatus returns the status for an error of setting up the streams.
func streamStatus(err error) *metav1.Status {
	if err == nil {
		return &metav1.Status{Status: metav1.StatusSuccess}
	}
	refused := apierrors.NewInternalError(err)
	switch {
	case errdefs.IsNotFound(err), errdefs.IsFailedPrecondition(err), errdefs.IsNotImplemented(err):
		refused = apierrors.NewBadRequest(err.Error())
	case errdefs.IsResourceExhausted(err):
		refused = apierrors.NewTooManyRequestsError(err.Error())
	case errdefs.IsUnavailable(err), errors.Is(err, conns.ErrStopping):
		refused = apierrors.NewServiceUnavailable(err.Error())
	}
	return &refused.ErrStatus
}
