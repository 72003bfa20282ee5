package server

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// webSocket opens a WebSocket as a client does that knows nothing of Kubernetes' Go libraries.
func (ts *testServer) webSocket(t *testing.T, path, protocol string) *websocket.Conn {
	t.Helper()
	dialer := websocket.Dialer{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	if protocol != "" {
		dialer.Subprotocols = []string{protocol}
	}
	// An API server takes a watch only from clients that say where they come from.
	header := http.Header{"Authorization": {"Bearer " + ts.adminToken}, "Origin": {"https://" + ts.tls.String()}}
	conn, response, err := dialer.DialContext(t.Context(), "wss://"+ts.tls.String()+path, header)
	if err != nil {
		t.Fatalf("%s: %v, %+v", path, err, response)
	}
	t.Cleanup(func() { conn.Close() })
	if got := conn.Subprotocol(); got != protocol {
		t.Errorf("the server chose %q, asked for was %q", got, protocol)
	}
	return conn
}

// heard returns what comes by each channel until the server closes the connection.
func heard(t *testing.T, conn *websocket.Conn, encoded bool) map[byte]string {
	t.Helper()
	channels := map[byte]string{}
	for {
		_, message, err := conn.ReadMessage()
		if err != nil {
			return channels
		}
		channel, data := message[0], string(message[1:])
		if encoded {
			decoded, err := base64.StdEncoding.DecodeString(data)
			if err != nil {
				t.Errorf("%q: %v", message, err)
			}
			channel, data = channel-'0', string(decoded)
		}
		channels[channel] += data
	}
}

func TestWebSocketProtocols(t *testing.T) {
	ts := startServer(t, func(c *Config) { c.Containers = fakeContainers{said: make(chan error, 9)} })
	ts.mustDo(t, http.MethodPost, "/api/v1/namespaces/default/pods", `{"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}`, 201)
	ts.bind(t, "p", "node", corev1.ContainerStatus{Name: "c", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
	const pod = "/api/v1/namespaces/default/pods/p"
	for _, protocol := range []string{"", "channel.k8s.io", "base64.channel.k8s.io", "v4.channel.k8s.io", "v4.base64.channel.k8s.io", "v5.channel.k8s.io"} {
		t.Run("protocol "+protocol, func(t *testing.T) {
			encoded, text := strings.Contains(protocol, "base64"), !strings.HasPrefix(protocol, "v")
			conn := ts.webSocket(t, pod+"/exec?command=size&stdout=true&tty=true", protocol)
			size := []byte(`{"Width":77,"Height":33}`)
			message := append([]byte{4}, size...)
			if encoded {
				message = []byte("4" + base64.StdEncoding.EncodeToString(size))
			}
			if err := conn.WriteMessage(websocket.BinaryMessage, message); err != nil {
				t.Fatal(err)
			}
			got := heard(t, conn, encoded)
			var status metav1.Status
			if text != (got[3] == "") || !text && (json.Unmarshal([]byte(got[3]), &status) != nil || status.Status != metav1.StatusSuccess) {
				t.Errorf("a success is told as %q", got[3])
			}
			if got[1] != "77x33 tty=true stderr=false" {
				t.Errorf("heard %q", got)
			}
			got = heard(t, ts.webSocket(t, pod+"/exec?command=other&stdout=true", protocol), encoded)
			failure := got[3]
			if !text {
				if err := json.Unmarshal([]byte(failure), &status); err != nil || status.Code != http.StatusBadRequest {
					t.Errorf("a failure is told as %q: %v", failure, err)
				}
				failure = status.Message
			}
			if !strings.HasPrefix(failure, `exec: "other" is not there`) {
				t.Errorf("a failure is told as %q", got[3])
			}
			if got := heard(t, ts.webSocket(t, pod+"/attach?stdout=true", protocol), encoded); got[1] != "p/c\n" {
				t.Errorf("attached: %q", got)
			}
		})
	}
	t.Run("the first message says that it is established", func(t *testing.T) {
		_, message, err := ts.webSocket(t, pod+"/exec?command=size&stdout=true&tty=true", "v4.channel.k8s.io").ReadMessage()
		if err != nil || string(message) != "\x01" {
			t.Errorf("%q, %v", message, err)
		}
	})
	t.Run("without upgrade headers", func(t *testing.T) {
		for _, request := range []string{"exec?command=size&stdout=true", "attach?stdout=true"} {
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				code, body := ts.plain(t, method, pod+"/"+request, nil)
				var status metav1.Status
				if err := json.Unmarshal([]byte(body), &status); err != nil || code != 400 || status.Message != "Upgrade request required" {
					t.Errorf("%s %s: %d %s", method, request, code, body)
				}
			}
		}
		code, body := ts.plain(t, http.MethodPost, pod+"/exec?command=size&stdout=true", http.Header{"Connection": {"Upgrade"}, "Upgrade": {"SPDY/3.1"}})
		if code != 400 || strings.Count(body, "unable to upgrade") != 1 {
			t.Errorf("SPDY without a protocol: %d %q", code, body)
		}
	})
}

// plain sends a request with these headers, and returns the answer.
func (ts *testServer) plain(t *testing.T, method, path string, header http.Header) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "https://"+ts.tls.String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if header != nil {
		r.Header = header.Clone()
	}
	r.Header.Set("Authorization", "Bearer "+ts.adminToken)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(body)
}

type fixedLog string

func (l fixedLog) Open(context.Context, *corev1.Pod, *corev1.PodLogOptions) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(string(l))), nil
}

// A log and a watch come by WebSocket too, as from an API server.
func TestLogsAndWatchesByWebSocket(t *testing.T) {
	ts := startServer(t, func(c *Config) { c.Logs = fixedLog("one\ntwo\n") })
	ts.mustDo(t, http.MethodPost, "/api/v1/namespaces/default/pods", `{"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}`, 201)
	ts.bind(t, "p", "node", corev1.ContainerStatus{Name: "c", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
	for _, protocol := range []string{"", "binary.k8s.io", "base64.binary.k8s.io"} {
		conn, text := ts.webSocket(t, "/api/v1/namespaces/default/pods/p/log", protocol), ""
		for {
			_, message, err := conn.ReadMessage()
			if err != nil {
				break
			}
			if protocol == "base64.binary.k8s.io" {
				message, _ = base64.StdEncoding.DecodeString(string(message))
			}
			text += string(message)
		}
		if text != "one\ntwo\n" {
			t.Errorf("protocol %q: %q", protocol, text)
		}
	}
	conn := ts.webSocket(t, "/api/v1/namespaces/default/pods?watch=true", "")
	var event struct {
		Type   string
		Object metav1.PartialObjectMetadata
	}
	if err := conn.ReadJSON(&event); err != nil || fmt.Sprint(event.Type, event.Object.Name) != "ADDED"+"p" {
		t.Errorf("a watch: %+v, %v", event, err)
	}
}

// However fast a process ends, its client is told that the connection ends in good order.
func TestFarewell(t *testing.T) {
	ts := startServer(t, func(c *Config) { c.Containers = fakeContainers{} })
	ts.mustDo(t, http.MethodPost, "/api/v1/namespaces/default/pods", `{"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}`, 201)
	ts.bind(t, "p", "node", corev1.ContainerStatus{Name: "c", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
	for range 200 {
		conn := ts.webSocket(t, "/api/v1/namespaces/default/pods/p/exec?command=other&stdout=true", "v5.channel.k8s.io")
		for {
			if _, _, err := conn.ReadMessage(); err != nil {
				if !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
					t.Fatal(err)
				}
				break
			}
		}
		conn.Close()
	}
}

// Clients send what they like in one message, within bounds; on a watch they have nothing to send.
func TestMessagesByWebSocketAreBounded(t *testing.T) {
	ts := startServer(t, func(c *Config) { c.Containers = fakeContainers{said: make(chan error, 9)}; c.Logs = fixedLog("one\n") })
	ts.mustDo(t, http.MethodPost, "/api/v1/namespaces/default/pods", `{"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}`, 201)
	ts.bind(t, "p", "node", corev1.ContainerStatus{Name: "c", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
	const pod = "/api/v1/namespaces/default/pods/p"
	for _, c := range []struct {
		path   string
		bytes  int
		echoed bool
	}{
		{pod + "/attach?stdin=true&stdout=true", 5 << 20, true},
		{pod + "/attach?stdin=true&stdout=true", 32<<20 - 1, true},
		{pod + "/attach?stdin=true&stdout=true", 33 << 20, false},
		{"/api/v1/namespaces/default/pods?watch=true", 5000, false},
	} {
		t.Run(fmt.Sprintf("%.20s %d", strings.TrimPrefix(c.path, pod), c.bytes), func(t *testing.T) {
			conn := ts.webSocket(t, c.path, "")
			// In one frame, which is not masked by a mask of zeros, for channel 0.
			frame := append(binary.BigEndian.AppendUint64([]byte{0x82, 0xff}, uint64(c.bytes)), make([]byte, 4+c.bytes)...)
			go func() { _, _ = conn.UnderlyingConn().Write(frame) }()
			got := 0
			for got < c.bytes-1 {
				_, message, err := conn.ReadMessage()
				if err != nil {
					break
				}
				if c.echoed && len(message) > 0 && message[0] == 1 {
					got += strings.Count(string(message[1:]), "\x00")
				}
			}
			if (got == c.bytes-1) != c.echoed {
				t.Errorf("%d bytes came back", got)
			}
		})
	}
	t.Run("sizes of the terminal", func(t *testing.T) {
		for what, sizes := range map[string]string{
			"one that has no end": `{"Width":` + strings.Repeat("1", 2000),
			"many":                strings.Repeat(`{"Width":7,"Height":7}`, 1000),
			"nested":              strings.Repeat("[", 2000),
		} {
			conn := ts.webSocket(t, pod+"/exec?command=size&stdout=true&tty=true", "v4.channel.k8s.io")
			_ = conn.WriteMessage(websocket.BinaryMessage, []byte("\x04"+sizes)) // the first of many may end it
			if what != "many" {
				conn.Close() // what it waits for does not come
				continue
			}
			if got := heard(t, conn, false); got[1] != "7x7 tty=true stderr=false" {
				t.Errorf("%s: %q", what, got)
			}
		}
	})
	t.Run("ports", func(t *testing.T) {
		run(t, ts)
		code, body := ts.plain(t, http.MethodGet, pod+"/portforward?ports="+strings.TrimSuffix(strings.Repeat("80&ports=", 300), "&ports="),
			http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}})
		if code != 400 || !strings.Contains(body, "256 are the most") {
			t.Errorf("%d %s", code, body)
		}
	})
}

// A frame of SPDY is held whole, so that no long one is waited for.
func TestFramesOfSPDYAreBounded(t *testing.T) {
	ts := startServer(t, func(c *Config) { c.Containers = fakeContainers{ended: make(chan error, 9), said: make(chan error, 9)} })
	ts.mustDo(t, http.MethodPost, "/api/v1/namespaces/default/pods", `{"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}`, 201)
	ts.bind(t, "p", "node", corev1.ContainerStatus{Name: "c", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
	run(t, ts)
	for i, path := range []string{"attach?stdin=true", "portforward", "attach?stdin=true", "exec?command=cat&stdin=true"} {
		protocol := "v4.channel.k8s.io"
		if path == "portforward" {
			protocol = "portforward.k8s.io"
		}
		upgrade := []string{"SPDY/3.1", "SPDY/3.1", "websocket, SPDY/3.1", "SPDY/3.1, websocket"}[i] // each asks for SPDY
		conn, err := tls.Dial("tcp", ts.tls.String(), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST /api/v1/namespaces/default/pods/p/%s HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\nConnection: Upgrade\r\n"+
			"Upgrade: %s\r\nX-Stream-Protocol-Version: %s\r\n\r\n", path, ts.adminToken, upgrade, protocol)
		answer := make([]byte, 12)
		if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "HTTP/1.1 101" {
			t.Fatalf("%s: %q, %v", path, answer, err)
		}
		_, _ = conn.Write(append([]byte{0, 0, 0, 1, 0, 0xff, 0xff, 0xff}, make([]byte, 1<<20)...))
		_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection is kept", path)
		}
	}
}
