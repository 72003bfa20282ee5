package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// oneServer is a pod whose port 8080 is a server; nothing else listens.
type oneServer struct {
	fakeContainers
	address string
}

func (o oneServer) Dial(ctx context.Context, pod *corev1.Pod, port uint16) (net.Conn, error) {
	if port != 8080 {
		return nil, fmt.Errorf("port %d of %s: connection refused", port, pod.Name)
	}
	return net.Dial("tcp4", o.address)
}

func TestPodProxy(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/echo/", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Answer", "yes")
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprintf(w, "%s %s %s %q %q %q", r.Method, r.URL.EscapedPath(), r.URL.RawQuery, body,
			r.Header.Get("Authorization"), r.Header.Get("X-Mine"))
	})
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "root") })
	mux.HandleFunc("/leave", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", r.URL.Query().Get("to"))
		w.WriteHeader(http.StatusFound)
	})
	mux.HandleFunc("/origin", func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Strict-Transport-Security", "max-age=1")
		w.WriteHeader(http.StatusEarlyHints)
		h.Set("Clear-Site-Data", "*")
		h.Set("Set-Cookie", "mine=1; Path=/; HttpOnly")
		h.Set("Content-Security-Policy", "script-src *")
		fmt.Fprint(w, "root")
	})
	mux.HandleFunc("/upgrade", func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		fmt.Fprint(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\n")
		line, _ := bufio.NewReader(c).ReadString('\n')
		fmt.Fprint(c, strings.ToUpper(line))
	})
	backend := httptest.NewServer(mux)
	defer backend.Close()

	ts := startServer(t, func(c *Config) { c.Containers = oneServer{address: backend.Listener.Addr().String()} })
	const pods = "/api/v1/namespaces/default/pods"
	ts.mustDo(t, http.MethodPost, pods, `{"metadata": {"name": "p"}, "spec": {"containers": [
		{"name": "c", "image": "i", "ports": [{"name": "web", "containerPort": 8080}]}]}}`, 201)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	askWith := func(ctx context.Context, t *testing.T, method, path, body string, headers ...string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, method, "https://"+ts.tls.String()+pods+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+ts.adminToken)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		answer, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { answer.Body.Close() })
		if answer.StatusCode == http.StatusSwitchingProtocols {
			return answer, ""
		}
		said, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer, string(said)
	}
	ask := func(t *testing.T, method, path, body string, headers ...string) (*http.Response, string) {
		t.Helper()
		return askWith(t.Context(), t, method, path, body, headers...)
	}
	if answer, said := ask(t, "GET", "/p/proxy/", ""); answer.StatusCode != 400 || !strings.Contains(said, "does not have a host assigned") {
		t.Errorf("before the pod is bound: %d %s", answer.StatusCode, said)
	}
	ts.bind(t, "p", "node")
	run(t, ts)

	for _, c := range []struct{ name, mode, through, want string }{
		{"a program", "", "", ""},
		{"a browser that shows it as a page of the API", "navigate", "", "sandbox"},
		{"a page that loads it", "cors", "", ""},
		{"a browser through kubectl proxy", "navigate", "127.0.0.1", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			answer, said := ask(t, "GET", "/p/proxy/", "", "Sec-Fetch-Mode", c.mode, "X-Forwarded-For", c.through)
			if got := answer.Header.Get("Content-Security-Policy"); got != c.want || said != "root" {
				t.Errorf("the policy is %q, want %q; %s", got, c.want, said)
			}
		})
	}
	t.Run("a pod that speaks for the origin of the API", func(t *testing.T) {
		early := 0
		trace := &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error { early++; return nil }}
		ctx := httptrace.WithClientTrace(t.Context(), trace)
		answer, said := askWith(ctx, t, "GET", "/p/proxy/origin", "", "Sec-Fetch-Mode", "navigate")
		if got := answer.Header.Values("Content-Security-Policy"); !slices.Contains(got, "sandbox") || said != "root" {
			t.Errorf("the policies are %q; %s", got, said)
		}
		for name, want := range map[string]string{
			"Clear-Site-Data": "", "Strict-Transport-Security": "", "Set-Cookie": "mine=1; HttpOnly; Path=" + pods + "/p/proxy/",
		} {
			if got := answer.Header.Get(name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		if early > 0 {
			t.Errorf("%d answers came before the answer", early)
		}
	})
	for _, c := range []struct {
		name, method, path, body string
		code                     int
		says                     string
	}{
		{"the first port", "GET", "/p/proxy/", "", 200, "root"},
		{"a port by its number", "GET", "/p:8080/proxy/", "", 200, "root"},
		{"a port by its name", "GET", "/p:web/proxy/", "", 200, "root"},
		{"with a scheme", "GET", "/http:p:8080/proxy/", "", 200, "root"},
		{"path, query, body and headers", "POST", "/p/proxy/echo/a%2Fb/?x=1&y=2", "words", 418, `POST /echo/a%2Fb/ x=1&y=2 "words" "" "own"`},
		{"any method", "DELETE", "/p/proxy/echo/", "", 418, "DELETE /echo/"},
		{"what is not there", "GET", "/p/proxy/nowhere", "", 404, "404 page not found"},
		{"a port that refuses", "GET", "/p:81/proxy/", "", 503, "error trying to reach service: port 81 of p: connection refused"},
		{"a port that has no name", "GET", "/p:other/proxy/", "", 400, `pod p has no port \"other\"`},
		{"no such pod", "GET", "/q/proxy/", "", 404, `pods \"q\" not found`},
		{"no such scheme", "GET", "/ftp:p:8080/proxy/", "", 400, "is not [SCHEME:]NAME[:PORT]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			answer, said := ask(t, c.method, c.path, c.body, "X-Mine", "own")
			if answer.StatusCode != c.code || !strings.Contains(said, c.says) {
				t.Errorf("%d %s", answer.StatusCode, said)
			}
			if c.code == 418 && answer.Header.Get("X-Answer") != "yes" {
				t.Error("a header of the answer is missing")
			}
		})
	}

	const base = pods + "/p/proxy"
	for from, to := range map[string]string{
		"/p/proxy?a=b":                             base + "/?a=b",
		"/p/proxy/leave?to=/echo/x%3Fy%3Dz":        base + "/echo/x?y=z",
		"/p/proxy/leave?to=beside":                 base + "/beside",
		"/p/proxy/leave?to=http://localhost:8080/": base + "/",
	} {
		if answer, _ := ask(t, "GET", from, ""); answer.Header.Get("Location") != to || answer.StatusCode/100 != 3 {
			t.Errorf("%s leads to %d %q, want %q", from, answer.StatusCode, answer.Header.Get("Location"), to)
		}
	}

	if answer, said := ask(t, "GET", "/p/proxy/leave?to=https://example.org/", ""); answer.StatusCode != http.StatusBadGateway ||
		answer.Header.Get("Location") != "" || !strings.Contains(said, "https://example.org/") {
		t.Errorf("a program that is led elsewhere gets %d %q %s", answer.StatusCode, answer.Header.Get("Location"), said)
	}
	if answer, _ := ask(t, "GET", "/p/proxy/leave?to=https://example.org/", "", "Sec-Fetch-Mode", "navigate"); answer.StatusCode != http.StatusFound ||
		answer.Header.Get("Location") != "https://example.org/" {
		t.Errorf("a browser that is led elsewhere gets %d %q", answer.StatusCode, answer.Header.Get("Location"))
	}

	answer, said := ask(t, "GET", "/p/proxy/upgrade", "", "Connection", "Upgrade", "Upgrade", "shout")
	if answer.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%d %s", answer.StatusCode, said)
	}
	through := answer.Body.(io.ReadWriter)
	if _, err := io.WriteString(through, "hello\n"); err != nil {
		t.Fatal(err)
	}
	if line, _ := bufio.NewReader(through).ReadString('\n'); line != "HELLO\n" {
		t.Errorf("read %q", line)
	}
}
