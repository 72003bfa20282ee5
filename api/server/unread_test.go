package server

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/jobd/jobd/api/flowcontrol"
)

// TestWatchesThatNobodyReads has a user with many of them, on each kind of connection, when large objects change: what they hold
// is bounded, and a watch of another user goes on.
func TestWatchesThatNobodyReads(t *testing.T) {
	t.Parallel()
	ts := startServer(t, func(c *Config) { c.RequestTimeout = 2 * time.Second })
	there, err := ts.client(t).CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	path := "/api/v1/namespaces/default/configmaps?watch=true&resourceVersion=" + there.ResourceVersion
	const watches = 200
	for i := range watches {
		upgrade := ""
		if i%2 > 0 {
			upgrade = "Origin: http://jobd\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
		}
		c := ts.sendAs(t, attacker, "GET "+path+" HTTP/1.1\r\nHost: jobd\r\n"+upgrade+"\r\n")
		answer := bufio.NewReaderSize(c, 16)
		if line, err := answer.ReadString('\n'); err != nil || !strings.Contains(line, " 200 ") && !strings.Contains(line, " 101 ") {
			t.Fatal(line, err)
		}
	}
	w, err := ts.clientAs(t, other).CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: there.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for i := range 3 {
		ts.putConfigMap(t, fmt.Sprint("large", i), strings.Repeat("x", 1<<20))
	}
	for i := range 3 {
		e := <-w.ResultChan()
		if c, ok := e.Object.(*corev1.ConfigMap); !ok || e.Type != watch.Added || c.Name != fmt.Sprint("large", i) {
			t.Fatalf("%s %.100v comes as number %d", e.Type, e.Object, i)
		}
	}
	most := 0
	waitFor(t, "they are ended", func() bool {
		held, refused := ts.local.shares.Unread()
		most = max(most, held)
		streams, _, _ := ts.local.shares.All()["stream"].Figures()
		return held == 0 && streams == 1 && refused > 0
	})
	// The last event of the one who reads may not be given back yet.
	if most > flowcontrol.MaxUnreadOfOne+2<<20 {
		t.Errorf("up to %d bytes were held", most)
	}
}

// TestWatchesOverWebSocket come to those who read, and those that do not are hung up on.
func TestWatchesOverWebSocket(t *testing.T) {
	t.Parallel()
	ts := startServer(t, func(c *Config) { c.RequestTimeout = 2 * time.Second })
	dialer := websocket.Dialer{NetDialContext: ts.config().Dial}
	open := func() *websocket.Conn {
		c, resp, err := dialer.Dial("ws://jobd/api/v1/namespaces/default/configmaps?watch=true", http.Header{"Origin": {"http://jobd"}})
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		t.Cleanup(func() { c.Close() })
		return c
	}
	reads, idle := open(), open()
	for i := range 5 {
		ts.putConfigMap(t, fmt.Sprint("large", i), strings.Repeat("x", 1<<20))
	}
	for i := range 5 {
		for { // others are there
			_, message, err := reads.ReadMessage()
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(message), `"large`) {
				continue
			}
			if !strings.Contains(string(message), fmt.Sprintf(`"large%d"`, i)) {
				t.Fatalf("%.200s comes as number %d", message, i)
			}
			break
		}
	}
	waitFor(t, "it is dropped", func() bool { return strings.Contains(ts.log.String(), "reads too slowly") })
	if _, err := io.Copy(io.Discard, idle.NetConn()); err != nil {
		t.Error(err)
	}
	waitFor(t, "nothing is held", func() bool { held, _ := ts.local.shares.Unread(); return held == 0 })
}
