package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"github.com/gorilla/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	upgrade "k8s.io/client-go/transport/websocket"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

type dialFunc func(context.Context) (net.Conn, error)

// onSocket sends the connections of exec, attach, run, cp and port-forward to the socket too. kubectl dials these
// itself, whatever its configuration says, but it lets the configuration wrap the dialer.
func onSocket(dial dialFunc) func(http.RoundTripper) http.RoundTripper {
	return func(inner http.RoundTripper) http.RoundTripper {
		if upgrader, ok := inner.(*upgrade.RoundTripper); ok {
			return socketUpgrader{upgrader, dial}
		}
		return inner
	}
}

// webSocketsOnly keeps kubectl from falling back to SPDY, which cannot be directed to a socket.
func webSocketsOnly() error {
	return errors.Join(os.Unsetenv("KUBECTL_REMOTE_COMMAND_WEBSOCKETS"), os.Unsetenv("KUBECTL_PORT_FORWARD_WEBSOCKETS"))
}

// socketUpgrader opens a WebSocket on the daemon's socket in place of holder, from which kubectl then takes the
// connection.
type socketUpgrader struct {
	holder *upgrade.RoundTripper
	dial   dialFunc
}

func (u socketUpgrader) RoundTrip(r *http.Request) (*http.Response, error) {
	d := websocket.Dialer{
		NetDialContext:  func(ctx context.Context, _, _ string) (net.Conn, error) { return u.dial(ctx) },
		Subprotocols:    r.Header[wsstream.WebSocketProtocolHeader],
		ReadBufferSize:  u.holder.DataBufferSize() + 1024, // as in kubectl: with the number of the channel
		WriteBufferSize: u.holder.DataBufferSize() + 1024,
	}
	to, header := *r.URL, r.Header.Clone()
	to.Scheme = "ws"
	header.Del(wsstream.WebSocketProtocolHeader)
	conn, answer, err := d.DialContext(r.Context(), to.String(), header)
	switch {
	case errors.Is(err, websocket.ErrBadHandshake):
		return nil, refusal(answer)
	case err != nil:
		return nil, err
	}
	u.holder.Conn = conn
	return answer, nil
}

// refusal returns what the server answered instead of opening a WebSocket, as an error for which kubectl does not fall
// back to SPDY.
func refusal(answer *http.Response) error {
	defer answer.Body.Close()
	words, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	if err != nil {
		return fmt.Errorf("%s: %w", answer.Status, err)
	}
	statuses := runtime.NewScheme()
	statuses.AddUnversionedTypes(metav1.SchemeGroupVersion, &metav1.Status{})
	decoded, _, err := serializer.NewCodecFactory(statuses).UniversalDecoder().Decode(words, nil, &metav1.Status{})
	if status, ok := decoded.(*metav1.Status); err == nil && ok {
		return &apierrors.StatusError{ErrStatus: *status}
	}
	return fmt.Errorf("%s: %s", answer.Status, words)
}
