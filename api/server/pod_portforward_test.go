package server

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

func TestPortForward(t *testing.T) {
	fake := fakeContainers{ended: make(chan error, 8)}
	ts := startServer(t, func(c *Config) { c.Containers = fake })
	ts.mustDo(t, http.MethodPost, "/api/v1/namespaces/default/pods", `{"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}`, 201)
	config := &rest.Config{Host: "https://" + ts.tls.String(), BearerToken: ts.adminToken, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	to := &url.URL{Scheme: "https", Host: ts.tls.String(), Path: "/api/v1/namespaces/default/pods/p/portforward"}
	dialers := map[string]func() (httpstream.Dialer, error){
		"SPDY": func() (httpstream.Dialer, error) {
			transport, upgrader, err := spdy.RoundTripperFor(config)
			return spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, to), err
		},
		"SPDY in a WebSocket": func() (httpstream.Dialer, error) {
			return portforward.NewSPDYOverWebsocketDialerForStreaming(to, config)
		},
	}
	forward := func(t *testing.T, transport, ports string) (*portforward.PortForwarder, *bytes.Buffer, <-chan error, func()) {
		t.Helper()
		dialer, err := dialers[transport]()
		if err != nil {
			t.Fatal(err)
		}
		stop, ready, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		var said bytes.Buffer
		f, err := portforward.NewOnAddressesForStreaming(dialer, []string{"127.0.0.1"}, []string{ports}, stop, ready, io.Discard, &said)
		if err != nil {
			t.Fatal(err)
		}
		go func() { done <- f.ForwardPorts() }()
		select {
		case <-ready:
		case err := <-done:
			done <- err
		}
		return f, &said, done, func() { close(stop) }
	}
	ts.bind(t, "p", "node")
	for transport := range dialers {
		_, _, done, stop := forward(t, transport, "0:80")
		if err := <-done; err == nil || !strings.Contains(err.Error(), "pod is not running") && transport == "SPDY" {
			t.Errorf("%s: before the pod runs: %v", transport, err)
		}
		stop()
	}
	run(t, ts)
	for transport := range dialers {
		t.Run(transport, func(t *testing.T) {
			f, _, done, stop := forward(t, transport, "0:80")
			ports, err := f.GetPorts()
			if err != nil {
				t.Fatal(err)
			}
			for range 700 { // more streams than may be open at a time
				c, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", ports[0].Local))
				if err != nil {
					t.Fatal(err)
				}
				if said, err := bufio.NewReader(c).ReadString('\n'); err != nil || said != "p\n" {
					t.Fatalf("it says %q, %v", said, err)
				}
				c.Close()
				<-fake.ended
			}
			words := strings.Repeat("word\n", 1<<16)
			for range 3 {
				c, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", ports[0].Local))
				if err != nil {
					t.Fatal(err)
				}
				go func() {
					_, _ = io.WriteString(c, words)
					_ = c.(*net.TCPConn).CloseWrite()
				}()
				if got, err := io.ReadAll(c); err != nil || string(got) != "p\n"+words {
					t.Errorf("%d bytes, %v", len(got), err)
				}
				c.Close()
				if err := <-fake.ended; err != nil {
					t.Error(err)
				}
			}
			open, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", ports[0].Local))
			if err != nil {
				t.Fatal(err)
			}
			defer open.Close()
			if _, err := io.ReadFull(open, make([]byte, 2)); err != nil {
				t.Fatal(err)
			}
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
			<-fake.ended // when the client has left

			f, _, done, stop = forward(t, transport, "0:81")
			if ports, err = f.GetPorts(); err != nil {
				t.Fatal(err)
			}
			c, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", ports[0].Local))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if got, _ := io.ReadAll(c); len(got) > 0 {
				t.Errorf("read %q from a port that refuses", got)
			}
			stop() // in case the library has not given up by itself, which it does when the reason reaches it in time
			<-done
		})
	}
	t.Run("a WebSocket with channels, as other languages have it", func(t *testing.T) {
		dialer := websocket.Dialer{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, Subprotocols: []string{"v4.channel.k8s.io"}}
		header := http.Header{"Authorization": {"Bearer " + ts.adminToken}}
		if _, answer, err := dialer.Dial(strings.Replace(to.String(), "https", "wss", 1), header); err == nil || answer.StatusCode != http.StatusBadRequest {
			t.Errorf("without ports: %v", err)
		}
		c, _, err := dialer.Dial(strings.Replace(to.String(), "https", "wss", 1)+"?ports=80&ports=81", header)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		seen := map[byte]string{}
		if err := c.WriteMessage(websocket.BinaryMessage, []byte("\x00hello")); err != nil {
			t.Fatal(err)
		}
		port := func(n uint16) string { return string(binary.LittleEndian.AppendUint16(nil, n)) }
		for seen[0] != port(80)+"p\nhello" || !strings.Contains(seen[3], "connection refused") {
			_, message, err := c.ReadMessage()
			if err != nil {
				t.Fatalf("%v; seen %q", err, seen)
			}
			seen[message[0]] += string(message[1:])
		}
		if want := port(81) + "error forwarding port 81 to pod p, uid "; !strings.HasPrefix(seen[3], want) {
			t.Errorf("refused with %q", seen[3])
		}
		c.Close()
		<-fake.ended
	})
}

// run reports, in place of the loop, that the pod runs.
func run(t *testing.T, ts *testServer) {
	t.Helper()
	ts.bind(t, "p", "node", corev1.ContainerStatus{Name: "c", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
	client := ts.client(t)
	pod, err := client.CoreV1().Pods("default").Get(t.Context(), "p", metav1.GetOptions{})
	if err == nil {
		pod.Status.Phase = corev1.PodRunning
		_, err = client.CoreV1().Pods("default").UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}
