package server

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/jobd/jobd/api/listen"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/api/tokens"
	"github.com/jobd/jobd/store"
)

func TestMain(m *testing.M) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // each server logs its groups, which would bury a failure
	m.Run()
}

// testServer is the API alone: a store and a socket, and TLS when it is asked for. No loop, no containers.
type testServer struct {
	*Server
	store     *store.Store
	authority *listen.Authority
	socket    string
	// adminToken is that of the administrator, and roots are what clients verify the server with.
	adminToken string
	roots      *x509.CertPool
	tls        net.Addr
	log        *lockedBuffer
}

func startServer(t testing.TB, edit ...func(*Config)) *testServer {
	t.Helper()
	dir := t.TempDir()
	db, err := store.Open(filepath.Join(dir, "jobd.db"), store.Options{NoSync: true, HistoryBytes: 1 << 20, Words: storage.Words})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	authority, err := listen.OpenAuthority(filepath.Join(dir, "tls"))
	if err != nil {
		t.Fatal(err)
	}
	ts := &testServer{store: db, authority: authority, socket: filepath.Join(dir, "s"), log: &lockedBuffer{}}
	key, err := listen.OpenKey(filepath.Join(dir, "tls", "service-account.key"))
	if err != nil {
		t.Fatal(err)
	}
	token, err := os.ReadFile(filepath.Join(dir, "tls", "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	ts.adminToken, ts.roots = strings.TrimSpace(string(token)), x509.NewCertPool()
	ts.roots.AppendCertsFromPEM(authority.Certificate())
	accounts, err := tokens.New(key, db)
	if err != nil {
		t.Fatal(err)
	}
	config := Config{
		MultiKueue: true,
		Store:      db, Authority: authority, Tokens: accounts, Version: "test", Logs: fakeLogs{},
		Logger: slog.New(slog.NewTextHandler(ts.log, nil)),
	}
	for _, e := range edit {
		e(&config)
	}
	if ts.Server, err = New(config); err != nil {
		t.Fatal(err)
	}
	local, err := listen.Unix(ts.socket, "jobd")
	if err != nil {
		t.Fatal(err)
	}
	network, err := listen.TLS("127.0.0.1:0", authority, false)
	if err != nil {
		t.Fatal(err)
	}
	ts.tls = network.Addr()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- ts.Serve(ctx, local, network) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return ts
}

// config returns what a client on the socket needs.
func (ts *testServer) config() *rest.Config {
	return &rest.Config{
		Host: "http://jobd", QPS: 1e6, Burst: 1e6,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", ts.socket)
		},
	}
}

func (ts *testServer) client(t testing.TB) *kubernetes.Clientset {
	t.Helper()
	c, err := kubernetes.NewForConfig(ts.config())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// do sends one request over the socket.
func (ts *testServer) do(t testing.TB, method, path, contentType, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://jobd"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	tr := &http.Transport{DialContext: ts.config().Dial}
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr, Timeout: 5 * time.Minute}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

// fakeLogs writes what it was asked for.
type fakeLogs struct{}

func (fakeLogs) Open(ctx context.Context, pod *corev1.Pod, o *corev1.PodLogOptions) (io.ReadCloser, error) {
	text := pod.Name + "/" + o.Container
	if o.Previous {
		text += " previous"
	}
	if o.Timestamps {
		text += " timestamps"
	}
	if o.TailLines != nil {
		text += " tail"
	}
	r, w := io.Pipe()
	go func() {
		_, _ = io.WriteString(w, text+"\n")
		if o.Follow {
			<-ctx.Done()
		}
		var err error
		if pod.Name == "broken" {
			err = errors.New("the disk is broken")
		}
		_ = w.CloseWithError(err)
	}()
	return r, nil
}

// bind does what only the loop may do: it puts a pod on a node, and says how its containers are.
func (ts *testServer) bind(t testing.TB, name, node string, statuses ...corev1.ContainerStatus) {
	t.Helper()
	key := store.Key("pods", "default", name)
	err := ts.store.Update(t.Context(), func(tx *store.Tx) error {
		o, _ := tx.Get(key)
		pod := &corev1.Pod{}
		if err := scheme.Decode(o.Value, pod); err != nil {
			return err
		}
		pod.Spec.NodeName = node
		pod.Status.ContainerStatuses = statuses
		value, err := scheme.Encode(pod)
		if err != nil {
			return err
		}
		tx.Put(store.Object{Key: key, UID: o.UID, Owners: o.Owners, Value: value})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// get reads one path over the socket in one encoding.
func (ts *testServer) get(t testing.TB, path, accept string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", "http://jobd"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", accept)
	tr := &http.Transport{DialContext: ts.config().Dial}
	defer tr.CloseIdleConnections()
	resp, err := tr.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %d: %s: %v", path, resp.StatusCode, data, err)
	}
	return string(data)
}

func newJob(name string) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers:    []corev1.Container{{Name: "c", Image: "busybox"}},
		}}},
	}
}

func newPod(name string, containers ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, c := range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: c, Image: "busybox"})
	}
	return pod
}

type maker[T any] interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
}

func mustMake[T any](t testing.TB, in maker[T], obj T) T {
	t.Helper()
	made, err := in.Create(t.Context(), obj, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}
