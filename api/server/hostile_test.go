package server

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/conns"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/listen"
)

// Bodies that are small on the wire and large once they are read, and some that are nested deeper than a stack.
func TestBodiesThatExplode(t *testing.T) {
	ts := startServer(t)
	const path = "/apis/batch/v1/namespaces/default/jobs"
	mustMake(t, ts.client(t).BatchV1().Jobs("default"), newJob("a"))
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 30 {
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 10))
	}
	bomb = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: bomb}\n" + bomb
	loop := "apiVersion: batch/v1\nkind: Job\nmetadata: &m {name: loop, annotations: *m}\n"
	const depth = 500_000
	lists, objects := strings.Repeat("[", depth)+strings.Repeat("]", depth), strings.Repeat(`{"a":`, depth)+"1"+strings.Repeat("}", depth)
	flow := strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)
	for _, tc := range []struct{ name, method, path, contentType, body string }{
		{"a YAML bomb", "POST", path, "application/yaml", bomb},
		{"a YAML bomb to be applied", "PATCH", path + "/bomb?fieldManager=me", "application/apply-patch+yaml", bomb},
		{"YAML that holds itself", "POST", path, "application/yaml", loop},
		{"YAML that holds itself, to be applied", "PATCH", path + "/loop?fieldManager=me", "application/apply-patch+yaml", loop},
		{"deep YAML", "POST", path, "application/yaml", "apiVersion: batch/v1\nkind: Job\nspec: " + flow},
		{"deep YAML to be applied", "PATCH", path + "/deep?fieldManager=me", "application/apply-patch+yaml", "apiVersion: batch/v1\nkind: Job\nspec: " + flow},
		{"deep lists", "POST", path, "application/json", `{"apiVersion":"batch/v1","kind":"Job","spec":` + lists + `}`},
		{"deep objects", "POST", path, "application/json", `{"apiVersion":"batch/v1","kind":"Job","spec":` + objects + `}`},
		{"deep objects where nobody looks", "POST", path, "application/json", `{"apiVersion":"batch/v1","kind":"Job","x":` + objects + `}`},
		{"a deep merge patch", "PATCH", path + "/a", "application/merge-patch+json", `{"spec":` + objects + `}`},
		{"a deep strategic merge patch", "PATCH", path + "/a", "application/strategic-merge-patch+json", `{"spec":` + objects + `}`},
		{"a deep JSON patch", "PATCH", path + "/a", "application/json-patch+json", `[{"op":"add","path":"/spec","value":` + objects + `}]`},
		{
			"a deep path of a JSON patch", "PATCH", path + "/a", "application/json-patch+json",
			`[{"op":"add","path":"` + strings.Repeat("/a", depth) + `","value":1}]`,
		},
		{"options of a deletion", "DELETE", path + "/a", "application/json", objects},
		{"a review", "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "application/json", lists},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, text := ts.do(t, tc.method, tc.path, tc.contentType, tc.body)
			if code < 400 || code >= 500 {
				t.Errorf("%d: %.300s", code, text)
			}
		})
	}
	ts.mustDo(t, "GET", path+"/a", "", 200)
	if jobs, err := ts.client(t).BatchV1().Jobs("default").List(t.Context(), metav1.ListOptions{}); err != nil || len(jobs.Items) != 1 {
		t.Errorf("there are other Jobs now: %v, %v", jobs, err)
	}
}

// requestTLS sends one request over TLS, exactly as given, and returns the status code.
func (ts *testServer) requestTLS(t *testing.T, token, method, rawPath string, headers map[string]string) int {
	t.Helper()
	conn, err := tls.Dial("tcp", ts.tls.String(), &tls.Config{RootCAs: ts.roots, NextProtos: []string{"http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	request := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: jobd\r\nAuthorization: Bearer %s\r\n", method, rawPath, token)
	for name, value := range headers {
		request += name + ": " + value + "\r\n"
	}
	if _, ok := headers["Connection"]; !ok {
		request += "Connection: close\r\n"
	}
	if _, err := io.WriteString(conn, request+"\r\n"); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// Clients that may only read get at no Secret and into no container, whatever the request looks like.
func TestReadersStayReaders(t *testing.T) {
	ts := startServer(t)
	reader := ts.token(t, ts.account(t, "reader", core.RoleRead), nil).Status.Token
	mustMake(t, ts.client(t).CoreV1().Secrets("default"), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"x": "y"}})
	mustMake(t, ts.client(t).CoreV1().Pods("default"), newPod("p", "c"))
	upgrades := map[string]map[string]string{
		"by GET": nil,
		"by WebSocket": {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
			"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol": "v5.channel.k8s.io"},
		"by SPDY": {"Connection": "Upgrade", "Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "v4.channel.k8s.io"},
	}
	const in = "/api/v1/namespaces/default/"
	for how, headers := range upgrades {
		for _, path := range []string{
			in + "pods/p/exec?command=id&stdout=true", in + "pods/p/attach?stdout=true", in + "pods/p/portforward?ports=80",
			in + "pods/p/proxy/", in + "pods/p:80/proxy/x", in + "services/s/proxy/", in + "services/s:80/proxy/x",
			in + "pods/p/exec/?command=id&stdout=true", "//api/v1/namespaces/default/pods/p/exec?command=id", in + "pods/p/../p/exec?command=id",
			in + "pods/p%2Fexec?command=id&stdout=true", in + "secrets", in + "secrets/s", in + "secrets?watch=true", in + "secrets/s?watch=true",
			"/api/v1/secrets", "/api/v1/watch/secrets", "/api/v1/watch/namespaces/default/secrets/s", in + "secrets?fieldSelector=metadata.name%3Ds",
			in + "configmaps/../secrets/s", in + "configmaps/..%2fsecrets%2fs", in + "Secrets", in + "secrets%00", in + "serviceaccounts/reader/token",
			"/jobd/v1/kubeconfig", "/jobd/v1/images", "/jobd/v1/database", "/jobd/v1/debug", "/debug/pprof/heap",
		} {
			for _, method := range []string{"GET", "POST"} {
				if code := ts.requestTLS(t, reader, method, path, headers); code < 300 || code >= 500 {
					t.Errorf("%s %s %s: %d", method, path, how, code)
				}
			}
		}
	}
	if code := ts.requestTLS(t, reader, "GET", in+"pods/p", nil); code != 200 {
		t.Errorf("what it may read: %d", code)
	}
}

// A client that may do everything in one namespace can do nothing in another, whatever the path or the object says.
func TestNamespacesAreNotCrossed(t *testing.T) {
	ts := startServer(t)
	boss := ts.token(t, ts.account(t, "boss", core.RoleAdmin), nil).Status.Token
	mustMake(t, ts.client(t).CoreV1().Secrets("kube-system"), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}})
	for _, path := range []string{
		"/api/v1/namespaces/kube-system/secrets/s", "/api/v1/namespaces/default/../kube-system/secrets/s",
		"/api/v1/namespaces/default/../../namespaces/kube-system/secrets/s", "/api/v1/namespaces/default%2F..%2Fkube-system/secrets/s",
		"/api/v1/namespaces/default/secrets/..%2F..%2Fkube-system%2Fsecrets%2Fs", "/api/v1//namespaces/kube-system/secrets/s",
		"/api/v1/namespaces/kube-system%00/secrets/s", "/api/v1/namespaces//secrets", "/api/v1/secrets",
		"/api/v1/secrets?fieldSelector=metadata.namespace%3Ddefault", "/api/v1/watch/namespaces/kube-system/secrets",
		"/api/v1/namespaces/KUBE-SYSTEM/secrets/s", "/api/v1/namespaces/default/secrets/kube-system/s",
	} {
		if code := ts.requestTLS(t, boss, "GET", path, nil); code < 300 || code >= 500 {
			t.Errorf("%s: %d", path, code)
		}
	}
	c := ts.with(t, boss)
	elsewhere := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "kube-system"}}
	for _, namespace := range []string{"default", "kube-system"} {
		body, err := json.Marshal(elsewhere)
		if err != nil {
			t.Fatal(err)
		}
		err = c.CoreV1().RESTClient().Post().AbsPath("/api/v1/namespaces", namespace, "configmaps").Body(body).Do(t.Context()).Error()
		if err == nil {
			t.Errorf("an object of kube-system is made by way of %s", namespace)
		}
	}
	if _, err := ts.client(t).CoreV1().ConfigMaps("kube-system").Get(t.Context(), "a", metav1.GetOptions{}); err == nil {
		t.Error("it is there")
	}
}

// A token is valid only as it was signed.
func TestForgedTokens(t *testing.T) {
	ts := startServer(t)
	good := ts.token(t, ts.account(t, "robot", core.RoleAdmin), nil).Status.Token
	parts := strings.Split(good, ".")
	decode := func(part string) map[string]any {
		raw, err := base64.RawURLEncoding.DecodeString(part)
		if err != nil {
			t.Fatal(err)
		}
		content := map[string]any{}
		if err := json.Unmarshal(raw, &content); err != nil {
			t.Fatal(err)
		}
		return content
	}
	encode := func(content map[string]any) string {
		raw, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	with := func(part string, key string, value any) string {
		content := decode(part)
		content[key] = value
		return encode(content)
	}
	claims, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	sign := func(algorithm jose.SignatureAlgorithm, key any) string {
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, nil)
		if err != nil {
			t.Fatal(err)
		}
		signed, err := signer.Sign(claims)
		if err != nil {
			t.Fatal(err)
		}
		token, err := signed.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	stranger, err := listen.OpenKey(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	certificates, err := listen.OpenKey(filepath.Join(filepath.Dir(ts.socket), "tls", "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	// What anybody can read is used as the secret of a symmetric signature.
	block, _ := pem.Decode(ts.authority.Certificate())
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(certificate.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(public)
	for name, token := range map[string]string{
		"without a signature":                    parts[0] + "." + parts[1] + ".",
		"that says it needs none":                with(parts[0], "alg", "none") + "." + parts[1] + ".",
		"that says so in capitals":               with(parts[0], "alg", "None") + "." + parts[1] + "." + parts[2],
		"of another algorithm":                   with(parts[0], "alg", "HS256") + "." + parts[1] + "." + parts[2],
		"for another account":                    parts[0] + "." + with(parts[1], "sub", "system:serviceaccount:kube-system:robot") + "." + parts[2],
		"that lasts for ever":                    parts[0] + "." + with(parts[1], "exp", 1<<40) + "." + parts[2],
		"of another issuer":                      parts[0] + "." + with(parts[1], "iss", "https://kubernetes.default.svc") + "." + parts[2],
		"with a key of its own":                  with(parts[0], "jwk", map[string]any{"kty": "oct", "k": "eA"}) + "." + parts[1] + "." + parts[2],
		"whose key is a path":                    with(parts[0], "kid", "../../../../dev/null") + "." + parts[1] + "." + parts[2],
		"signed by another key":                  sign(jose.ES256, stranger),
		"signed by the key of the certificates":  sign(jose.ES256, certificates),
		"signed with what everybody can read":    sign(jose.HS256, public),
		"signed with the digest of that":         sign(jose.HS256, sum[:]),
		"with more behind it":                    good + ".x",
		"with blanks":                            good[:len(parts[0])] + " " + good[len(parts[0]):],
		"that is a megabyte long, within limits": parts[0] + "." + strings.Repeat("A", 1<<16) + "." + parts[2],
	} {
		if code := ts.requestTLS(t, token, "GET", "/api/v1/namespaces/default/pods", nil); code != http.StatusUnauthorized {
			t.Errorf("a token %s: %d", name, code)
		}
	}
	if code := ts.requestTLS(t, good, "GET", "/api/v1/namespaces/default/pods", nil); code != 200 {
		t.Errorf("the token itself: %d", code)
	}
	if err := ts.client(t).CoreV1().ServiceAccounts("default").Delete(t.Context(), "robot", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	ts.account(t, "robot", core.RoleAdmin)
	if code := ts.requestTLS(t, good, "GET", "/api/v1/namespaces/default/pods", nil); code != http.StatusUnauthorized {
		t.Errorf("a token of an account that was replaced: %d", code)
	}
}

// frames opens an HTTP/2 connection on which every frame is written by hand.
func (ts *testServer) frames(t *testing.T) (*http2.Framer, *tls.Conn) {
	t.Helper()
	conn, err := tls.Dial("tcp", ts.tls.String(), &tls.Config{RootCAs: ts.roots, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(conn, conn)
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return framer, conn
}

// request is the block of headers of a GET.
func (ts *testServer) request(path string) []byte {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, f := range [][2]string{
		{":method", "GET"}, {":scheme", "https"}, {":authority", "jobd"}, {":path", path},
		{"authorization", "Bearer " + ts.adminToken},
	} {
		_ = encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	return block.Bytes()
}

// Streams that are opened and reset at once (CVE-2023-44487) take nothing from others.
func TestResetsOfStreams(t *testing.T) {
	ts := startServer(t)
	framer, conn := ts.frames(t)
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	sent := 0
	for ; sent < 20_000; sent++ {
		id := uint32(2*sent + 1)
		if framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: ts.request("/api/v1/pods"), EndStream: true, EndHeaders: true}) != nil ||
			framer.WriteRSTStream(id, http2.ErrCodeCancel) != nil {
			break // the server has hung up
		}
		if sent%5_000 == 0 {
			if resp, err := ts.network(t).Get("https://" + ts.tls.String() + "/livez"); err != nil || resp.StatusCode != 200 {
				t.Fatalf("after %d resets others get %v, %v", sent, resp, err)
			}
		}
	}
	if sent == 20_000 {
		t.Error("who breaks off whatever it begins is not hung up on")
	}
	if resp, err := ts.network(t).Get("https://" + ts.tls.String() + "/livez"); err != nil || resp.StatusCode != 200 {
		t.Errorf("afterwards others get %v, %v", resp, err)
	}
}

// Headers that never end (CVE-2023-45288) end with their connection.
func TestContinuationsWithoutEnd(t *testing.T) {
	ts := startServer(t)
	framer, conn := ts.frames(t)
	if err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: ts.request("/api/v1/pods")}); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	var block bytes.Buffer
	_ = hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: "x", Value: strings.Repeat("x", 8000), Sensitive: true})
	const most = 256 << 20
	sent := 0
	for ; sent < most; sent += block.Len() {
		if err := framer.WriteContinuation(1, false, block.Bytes()); err != nil {
			break
		}
	}
	if sent >= most {
		t.Errorf("%d bytes of headers were taken", sent)
	}
	if resp, err := ts.network(t).Get("https://" + ts.tls.String() + "/livez"); err != nil || resp.StatusCode != 200 {
		t.Errorf("afterwards others get %v, %v", resp, err)
	}
}

// A client that sends a header now and then is hung up on, and holds up nobody.
func TestHeadersThatComeSlowly(t *testing.T) {
	t.Parallel() // it takes as long as headers may take
	ts := startServer(t)
	ended := make(chan error, 1)
	conn := ts.raw(t, "GET /livez HTTP/1.1\r\nHost: jobd\r\n")
	go func() {
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		answer, err := io.ReadAll(conn)
		if err == nil && bytes.HasPrefix(answer, []byte("HTTP/1.1 200")) {
			err = errors.New("it is answered")
		}
		ended <- err
	}()
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		select {
		case err := <-ended:
			if err != nil && !strings.Contains(err.Error(), "reset") {
				t.Errorf("it is not hung up on: %v", err)
			}
			return
		case <-again.C:
			_, _ = io.WriteString(conn, "X: x\r\n")
			ts.mustDo(t, "GET", "/livez", "", 200)
		}
	}
}

// A client that lets the server send nothing leaves answers where they are, with their requests, which hold no place any more, or never
// had one. There are not many of them, and not for long.
func TestAnswersThatNobodyReads(t *testing.T) {
	ts := startServer(t, func(c *Config) { c.RequestTimeout = 5 * time.Second })
	var hungUp atomic.Int32
	unread := func(path string, streams int) {
		framer, conn := ts.frames(t)
		if err := framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
			t.Fatal(err)
		}
		go func() {
			_, _ = io.Copy(io.Discard, conn)
			hungUp.Add(1)
		}()
		for i := range streams {
			if framer.WriteHeaders(http2.HeadersFrameParam{
				StreamID: uint32(2*i + 1), BlockFragment: ts.request(path), EndStream: true, EndHeaders: true,
			}) != nil {
				return // the server has hung up
			}
		}
	}
	loose := func() int { return ts.remote.connections.Loose() }
	unread("/livez", 200)
	unread("/nope", 200)
	waitFor(t, "they wait", func() bool { return loose() >= 400 })
	waitFor(t, "they are given up", func() bool { return loose() == 0 })
	if n := hungUp.Load(); n > 0 {
		t.Errorf("%d clients were hung up on, and not only their streams", n)
	}
	for range 12 {
		unread("/nope", 240)
	}
	if resp, err := ts.network(t).Get("https://" + ts.tls.String() + "/livez"); err != nil || resp.StatusCode != 200 {
		t.Errorf("others get %v, %v", resp, err)
	}
	waitFor(t, "some are hung up on", func() bool { return hungUp.Load() > 0 && loose() <= conns.MaxLoose })
	waitFor(t, "all are given up", func() bool { return loose() == 0 })
}
