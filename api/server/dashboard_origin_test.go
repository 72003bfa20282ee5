package server

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/roles"
)

// A browser may show a client certificate for another site, so that is refused. Programs, and those who show a token, may say
// that they come from anywhere.
func TestOriginsOfWebSockets(t *testing.T) {
	ts := startServer(t, func(c *Config) { c.Containers = fakeContainers{} })
	ts.mustDo(t, http.MethodPost, "/api/v1/namespaces/default/pods", `{"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}`, 201)
	ts.bind(t, "p", "node", corev1.ContainerStatus{Name: "c", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
	cert, key, err := ts.authority.IssueClient("me", []string{roles.AdminGroup}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	const mozilla = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"
	clients := map[string]http.Header{
		"a program": {}, "a program with a name": {"User-Agent": {"e2e.test/v1.37.2 (linux/amd64)"}},
		"a browser": {"User-Agent": {mozilla}},
		// By Firefox, and by each browser of what is no WebSocket.
		"a browser that says so": {"User-Agent": {mozilla}, "Sec-Fetch-Site": {"cross-site"}},
	}
	origins := map[string]string{
		"none": "", "its own": "https://" + ts.tls.String(), "another port": "http://localhost",
		"another site": "https://evil.example", "a sandbox": "null",
	}
	for credential, shown := range map[string]struct {
		http.Header
		certificates []tls.Certificate
		socket       bool
	}{
		"a token":                        {Header: http.Header{"Authorization": {"Bearer " + ts.adminToken}}},
		"a certificate":                  {certificates: []tls.Certificate{pair}},
		"the socket":                     {socket: true},
		"nothing":                        {},
		"a bad token":                    {Header: http.Header{"Authorization": {"Bearer bad"}}},
		"a bad token in the subprotocol": {Header: http.Header{}, certificates: []tls.Certificate{pair}},
	} {
		for client, says := range clients {
			for from, origin := range origins {
				t.Run(fmt.Sprintf("%s by %s from %s", credential, client, from), func(t *testing.T) {
					want := http.StatusSwitchingProtocols
					foreign := from != "its own" && from != "none" || says.Get("Sec-Fetch-Site") != ""
					switch {
					case foreign && (says.Get("Sec-Fetch-Site") != "" || says.Get("User-Agent") == mozilla && shown.Get("Authorization") == ""):
						want = http.StatusForbidden
					case credential == "nothing" || credential == "a bad token":
						want = http.StatusUnauthorized
					}
					dialer := websocket.Dialer{
						TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: shown.certificates}, Subprotocols: []string{"v4.channel.k8s.io"},
					}
					url := "wss://" + ts.tls.String()
					if shown.socket {
						url = "ws://" + ts.tls.String()
						dialer.NetDial = func(string, string) (net.Conn, error) { return net.Dial("unix", ts.socket) }
					}
					if credential == "a bad token in the subprotocol" {
						dialer.Subprotocols = append(dialer.Subprotocols, "base64url.bearer.authorization.k8s.io.YmFk")
					}
					header := says.Clone()
					for name, values := range shown.Header {
						header[name] = values
					}
					if origin != "" {
						header.Set("Origin", origin)
					}
					conn, answer, err := dialer.DialContext(t.Context(), url+"/api/v1/namespaces/default/pods/p/exec?command=other&stdout=true", header)
					if conn != nil {
						conn.Close()
					}
					switch {
					case answer == nil:
						t.Fatal(err)
					case answer.StatusCode != want:
						t.Errorf("got %d, want %d", answer.StatusCode, want)
					}
				})
			}
		}
	}
}
