package server

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

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
	header := http.Header{"Authorization": {"Bearer " + ts.authority.token}, "Origin": {"https://" + ts.tls.String()}}
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
	r.Header.Set("Authorization", "Bearer "+ts.authority.token)
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
