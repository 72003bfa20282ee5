package server

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/jobd/jobd/api/flowcontrol"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

// raw sends a request over the socket and leaves the answer to the test.
func (ts *testServer) raw(t testing.TB, request string) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", ts.socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	return conn
}

func waitFor(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not come to this: ", what)
		}
	}
}

func TestTooLongHeadersAreRefused(t *testing.T) {
	ts := startServer(t)
	answer, err := io.ReadAll(ts.raw(t, "GET /livez HTTP/1.1\r\nHost: jobd\r\nX: "+strings.Repeat("x", flowcontrol.MaxHeaderBytes+8192)+"\r\n\r\n"))
	if !bytes.HasPrefix(answer, []byte("HTTP/1.1 431 ")) {
		t.Errorf("%.100s: %v", answer, err)
	}
	ts.mustDo(t, "GET", "/api/v1/pods?labelSelector=a+in+("+strings.Repeat(strings.Repeat("x", 60)+",", 900)+"x)", "", 200) // but long ones are not
}

func TestRequestsThatAskForTooMuchAreRefused(t *testing.T) {
	ts := startServer(t)
	long := strings.Repeat("x", 70_000)
	for _, tc := range []struct {
		path, headers string
		code          int
		says          string
	}{
		{"/api/v1/pods?labelSelector=" + long, "", 400, "labelSelector has 70000 bytes: at most 65536 are allowed"},
		{"/api/v1/pods?watch=1&fieldSelector=" + long, "", 400, "fieldSelector has 70000 bytes: at most 65536 are allowed"},
		{
			"/api/v1/pods?labelSelector=a+in+(b,c)" + strings.Repeat(",!a", 1000), "", 400,
			"labelSelector has 1002 requirements and values: at most 1000 are allowed",
		},
		{"/api/v1/pods?labelSelector=a+in+(b" + strings.Repeat(",b", 1000) + ")", "", 400, "labelSelector has 1001 requirements and values: at most 1000"},
		{"/api/v1/pods?watch=1&labelSelector=a+notin+(b" + strings.Repeat(",b", 1000) + ")", "", 400, "labelSelector has 1001 requirements and values"},
		{
			"/api/v1/pods?fieldSelector=metadata.name!=a" + strings.Repeat(",metadata.name!=b", 1000), "", 400,
			"fieldSelector has 1001 requirements and values: at most 1000 are allowed",
		},
		{"/api/v1/pods?limit=1&continue=" + long, "", 400, "continue has 70000 bytes: at most 16384 are allowed"},
		{"/api/v1/namespaces/default/pods/" + long, "", 414, "the path of the request has 70032 bytes: at most 8192 are allowed"},
		{"/api/v1/pods", strings.Repeat("X: y\r\n", 300), 431, "the request has 300 headers: at most 256 are allowed"},
		{"/api/v1/pods?labelSelector=a+in+(b,c)" + strings.Repeat(",!a", 998), "", 200, ""},
		{"/api/v1/pods?watch=1&x=" + long, "", 431, "at most 32768 are allowed of a watch or a log"},
		{"/api/v1/watch/pods?x=" + long, "", 431, "at most 32768 are allowed of a watch or a log"},
		{"/api/v1/namespaces/default/pods/a/log?x=" + long, "", 431, "at most 32768 are allowed of a watch or a log"},
		{"/api/v1/pods?watch=1", "X: " + long + "\r\n", 431, "at most 32768 are allowed of a watch or a log"},
		{"/api/v1/pods?x=" + long, "", 200, ""},
	} {
		c := ts.raw(t, "GET "+tc.path+" HTTP/1.1\r\nHost: jobd\r\n"+tc.headers+"\r\n")
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		said, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || answer.StatusCode != tc.code || !strings.Contains(string(said), tc.says) {
			t.Errorf("%.40s: %d %.300s: %v; want %d, %q", tc.path, answer.StatusCode, said, err, tc.code, tc.says)
		}
	}
}

// TestBodiesAreBounded sends more than an object may have to every kind of write.
func TestBodiesAreBounded(t *testing.T) {
	ts := startServer(t)
	mustMake(t, ts.client(t).BatchV1().Jobs("default"), newJob("a"))
	const path = "/apis/batch/v1/namespaces/default/jobs"
	much := `"` + strings.Repeat("x", 4<<20) + `"`
	for _, tc := range []struct{ method, path, contentType, body string }{
		{"POST", path, "application/json", strings.Replace(jobJSON("b"), `"metadata":{`, `"metadata":{"annotations":{"x":`+much+`},`, 1)},
		{"PUT", path + "/a", "application/json", strings.Replace(jobJSON("a"), `"metadata":{`, `"metadata":{"annotations":{"x":`+much+`},`, 1)},
		{"PATCH", path + "/a", "application/merge-patch+json", `{"metadata":{"annotations":{"x":` + much + `}}}`},
		{"PATCH", path + "/a", "application/json-patch+json", `[{"op":"add","path":"/metadata/annotations/x","value":` + much + `}]`},
		{"PATCH", path + "/a", "application/apply-patch+yaml", "a: " + much},
		{"DELETE", path + "/a", "application/json", `{"kind":"DeleteOptions","apiVersion":"v1","orphanDependents":` + much + `}`},
		{"DELETE", path, "application/json", `{"kind":"DeleteOptions","apiVersion":"v1","orphanDependents":` + much + `}`},
		{"POST", "/api/v1/namespaces/default/pods/a/eviction", "application/json", much},
		{"POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "application/json", much},
	} {
		if code, text := ts.do(t, tc.method, tc.path, tc.contentType, tc.body); code != http.StatusRequestEntityTooLarge {
			t.Errorf("%s %s with %s: %d: %.200s", tc.method, tc.path, tc.contentType, code, text)
		}
	}
}

// TestAPatchThatGrowsIsRefused multiplies a value by copying it again and again.
func TestAPatchThatGrowsIsRefused(t *testing.T) {
	ts := startServer(t)
	job := newJob("a")
	job.Annotations = map[string]string{"x": strings.Repeat("x", 100_000)}
	mustMake(t, ts.client(t).BatchV1().Jobs("default"), job)
	var ops []string
	for i := range 5000 {
		ops = append(ops, fmt.Sprintf(`{"op":"copy","from":"/metadata/annotations/x","path":"/metadata/annotations/x%d"}`, i))
	}
	code, text := ts.do(t, "PATCH", "/apis/batch/v1/namespaces/default/jobs/a", "application/json-patch+json", "["+strings.Join(ops, ",")+"]")
	if code != http.StatusUnprocessableEntity {
		t.Errorf("%d: %.200s", code, text)
	}
	many := "[" + strings.Repeat(`{"op":"test","path":"/kind","value":"Job"},`, 20_000) + `{"op":"test","path":"/kind","value":"Job"}]`
	if code, text := ts.do(
		t, "PATCH", "/apis/batch/v1/namespaces/default/jobs/a", "application/json-patch+json", many,
	); code != http.StatusRequestEntityTooLarge {
		t.Errorf("a patch of many operations: %d: %.200s", code, text)
	}
}

// TestAnObjectDoesNotGrowForEver adds to an object with each request.
func TestAnObjectDoesNotGrowForEver(t *testing.T) {
	ts := startServer(t)
	const pods = "/api/v1/namespaces/default/events"
	ts.mustDo(t, "POST", pods, `{"metadata":{"name":"e","namespace":"default"},"involvedObject":{"namespace":"default"}}`, 201)
	much := strings.Repeat("x", 2<<20)
	patch := func(field string) (int, string) {
		return ts.do(t, "PATCH", pods+"/e", "application/merge-patch+json", `{"`+field+`":"`+much+`"}`)
	}
	if code, text := patch("message"); code != 200 {
		t.Fatalf("%d: %.300s", code, text)
	}
	if code, text := patch("reason"); code != http.StatusRequestEntityTooLarge || !strings.Contains(text, "at most 3145728 are allowed") {
		t.Errorf("%d: %.300s", code, text)
	}
}

func TestRequestsInFlightAreBounded(t *testing.T) {
	held, release := make(chan struct{}, 1000), make(chan struct{})
	ts := startServer(t, func(c *Config) {
		c.Ready = map[string]func() error{"held": func() error { held <- struct{}{}; <-release; return nil }}
	})
	var asked sync.WaitGroup
	defer asked.Wait()
	defer close(release)
	for range 400 {
		asked.Go(func() {
			if code, text := ts.do(t, "GET", "/readyz", "", ""); code != 200 {
				t.Errorf("one of those that were held: %d: %s", code, text)
			}
		})
	}
	for range 400 {
		<-held
	}
	if code, _ := ts.do(t, "GET", "/readyz", "", ""); code != http.StatusTooManyRequests {
		t.Errorf("the 401st that reads: %d", code)
	}

	// Requests that write have a bound of their own: these are held up while nothing can be written.
	writing, written := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(written)
		_ = ts.store.Update(t.Context(), func(*store.Tx) error { close(writing); <-release; return nil })
	}()
	<-writing
	refused := make(chan string, 300)
	for i := range 220 {
		asked.Go(func() {
			code, text := ts.do(t, "POST", "/api/v1/namespaces/default/configmaps", "application/json", fmt.Sprintf(`{"metadata":{"name":"c%d"}}`, i))
			switch code {
			case http.StatusTooManyRequests:
				refused <- text
			case http.StatusCreated:
			default:
				t.Errorf("%d: %s", code, text)
			}
		})
	}
	for range 20 {
		<-refused
	}
	asked.Go(func() { <-written })
}

func TestStreamsAreBounded(t *testing.T) {
	ts := startServer(t, func(c *Config) { c.MaxStreams = 3 })
	jobs := ts.client(t).BatchV1().Jobs("default")
	var watches []watch.Interface
	for range 3 {
		w, err := jobs.Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		watches = append(watches, w)
	}
	code, text := ts.do(t, "GET", "/apis/batch/v1/jobs?watch=true", "", "")
	if code != http.StatusTooManyRequests || !strings.Contains(text, `"retryAfterSeconds":1`) {
		t.Errorf("a fourth watch: %d: %s", code, text)
	}
	ts.mustDo(t, "GET", "/apis/batch/v1/jobs", "", 200)
	// The network has a bound of its own, and whoever leaves makes room.
	mustMake(t, jobs, newJob("a"))
	watches[0].Stop()
	w, err := jobs.Watch(t.Context(), metav1.ListOptions{}) // clients come back by themselves when they are told to
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if e := <-w.ResultChan(); e.Type != watch.Added {
		t.Errorf("%+v", e)
	}
	for _, w := range watches {
		w.Stop()
	}
}

// putConfigMap makes a ConfigMap without going through the API, whose requests may have little time.
func (ts *testServer) putConfigMap(t *testing.T, name, content string) {
	t.Helper()
	value, err := scheme.Encode(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)}, Data: map[string]string{"x": content},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := ts.store.Update(t.Context(), func(tx *store.Tx) error {
		tx.Put(store.Object{Key: store.Key("configmaps", "default", name), UID: name, Value: value})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestSlowReadersAreDropped asks for much and reads none of it: the connection is closed, and others are not affected.
func TestSlowReadersAreDropped(t *testing.T) {
	t.Parallel()
	fill := func(t *testing.T, ts *testServer) {
		for i := range 16 {
			ts.putConfigMap(t, fmt.Sprint("c", i), strings.Repeat("x", 900_000))
		}
	}
	const path = "/api/v1/namespaces/default/configmaps"
	for name, ask := range map[string]func(*testing.T, *testServer){
		"a list": func(t *testing.T, ts *testServer) {
			fill(t, ts)
			ts.raw(t, "GET "+path+" HTTP/1.1\r\nHost: jobd\r\n\r\n")
		},
		"a watch": func(t *testing.T, ts *testServer) {
			ts.raw(t, "GET "+path+"?watch=true HTTP/1.1\r\nHost: jobd\r\n\r\n")
			fill(t, ts)
		},
		"a stream of HTTP/2": func(t *testing.T, ts *testServer) {
			r, err := http.NewRequestWithContext(t.Context(), "GET", "https://"+ts.tls.String()+path+"?watch=true", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+ts.adminToken)
			client := ts.network(t)
			resp, err := client.Do(r)
			if err != nil || resp.ProtoMajor != 2 {
				t.Fatal(resp, err)
			}
			fill(t, ts)
			waitFor(t, "the stream is dropped", func() bool { return strings.Contains(ts.log.String(), "reads too slowly") })
			if _, err := io.Copy(io.Discard, resp.Body); err == nil {
				t.Error("what was not read is there")
			}
			r.URL.RawQuery = "limit=1"
			waitFor(t, "the connection goes on", func() bool {
				other, err := client.Do(r)
				if err != nil {
					return false
				}
				defer other.Body.Close()
				return other.StatusCode == 200
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ts := startServer(t, func(c *Config) { c.RequestTimeout = 2 * time.Second; c.MaxStreams = 1 })
			ask(t, ts)
			waitFor(t, "it is dropped", func() bool { return strings.Contains(ts.log.String(), "reads too slowly") })
			// Its place is free.
			waitFor(t, "another is served", func() bool {
				r, _ := http.NewRequestWithContext(t.Context(), "GET", "http://jobd"+path+"?watch=true&timeoutSeconds=1", nil)
				tr := &http.Transport{DialContext: ts.config().Dial, DisableKeepAlives: true}
				resp, err := tr.RoundTrip(r)
				if err != nil {
					return false
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				return resp.StatusCode == 200
			})
		})
	}
}

// TestAWatcherThatOnlyWaitsIsNotSlow has nothing to read for longer than a reader may take.
func TestAWatcherThatOnlyWaitsIsNotSlow(t *testing.T) {
	t.Parallel()
	const within = 2 * time.Second
	ts := startServer(t, func(c *Config) { c.RequestTimeout = within })
	const path = "/api/v1/configmaps?watch=true"
	overTLS := ts.network(t)
	overSocket := &http.Client{Transport: &http.Transport{DialContext: ts.config().Dial}}
	var answers []*bufio.Reader
	for client, url := range map[*http.Client]string{overTLS: "https://" + ts.tls.String(), overSocket: "http://jobd"} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+ts.adminToken)
		resp, err := client.Do(r)
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(resp, err)
		}
		defer resp.Body.Close()
		answers = append(answers, bufio.NewReader(resp.Body))
	}
	for _, name := range []string{"a", "b"} {
		time.Sleep(within + within/2)
		ts.putConfigMap(t, name, "")
		for _, answer := range answers {
			if line, err := answer.ReadString('\n'); err != nil || !strings.Contains(line, `"name":"`+name+`"`) {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
}

// network is a client of the TLS listener that trusts it and has no credentials of its own.
func (ts *testServer) network(t testing.TB) *http.Client {
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ts.roots}, ForceAttemptHTTP2: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}
