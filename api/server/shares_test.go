package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes"

	"github.com/jobd/jobd/api/conns"
	"github.com/jobd/jobd/api/flowcontrol"
)

const (
	attacker = 65_534
	other    = 65_533
)

// dialAs connects to the socket as another user, who may use it. It needs root.
func (ts *testServer) dialAs(t testing.TB, uid int) net.Conn {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can be somebody else")
	}
	for path, mode := range map[string]os.FileMode{ts.socket: 0o666, filepath.Dir(ts.socket): 0o755, filepath.Dir(filepath.Dir(ts.socket)): 0o755} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Skip("not enough file descriptors: ", err)
	}
	// The kernel takes the user from the thread, and only this thread is changed.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const same = ^uintptr(0)
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, same, uintptr(uid), same); errno != 0 {
		t.Fatal(errno)
	}
	err = unix.Connect(fd, &unix.SockaddrUnix{Name: ts.socket})
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, same, 0, same); errno != 0 {
		panic(errno)
	}
	f := os.NewFile(uintptr(fd), ts.socket)
	defer f.Close()
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.FileConn(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// clientAs returns a client on the socket, of another user.
func (ts *testServer) clientAs(t testing.TB, uid int) *kubernetes.Clientset {
	t.Helper()
	config := ts.config()
	config.Dial = func(context.Context, string, string) (net.Conn, error) { return ts.dialAs(t, uid), nil }
	config.Timeout = time.Minute
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// sendAs sends a request over a connection of its own and leaves the answer to the test.
func (ts *testServer) sendAs(t testing.TB, uid int, request string) net.Conn {
	t.Helper()
	c := ts.dialAs(t, uid)
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	return c
}

// mustServe has clients that do no harm create and read something.
func mustServe(t *testing.T, clients ...*kubernetes.Clientset) {
	t.Helper()
	for _, c := range clients {
		jobs := c.BatchV1().Jobs("default")
		job := newJob("")
		job.GenerateName = "harmless-"
		mustMake(t, jobs, job)
		if _, err := jobs.List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
	}
}

// TestIdleConnectionsTakeNothingFromOthers opens 2,300 connections on which nothing is asked.
func TestIdleConnectionsTakeNothingFromOthers(t *testing.T) {
	ts := startServer(t)
	watched := ts.sendAs(t, attacker, "GET /apis/batch/v1/jobs?watch=true HTTP/1.1\r\nHost: jobd\r\n\r\n")
	events := bufio.NewReader(watched)
	if line, err := events.ReadString('\n'); err != nil || !strings.Contains(line, "200 OK") {
		t.Fatal(line, err)
	}
	for i := range 2300 {
		if i%2 == 0 {
			ts.dialAs(t, attacker)
		} else {
			ts.sendAs(t, attacker, "GET /livez HTTP/1.1\r\nHost: ") // and the request never ends
		}
		if c, err := net.Dial("tcp", ts.tls.String()); err == nil {
			t.Cleanup(func() { c.Close() })
		} else {
			t.Skip("not enough file descriptors: ", err)
		}
	}
	mustServe(t, ts.client(t), ts.clientAs(t, other), ts.clientAs(t, attacker), ts.with(t, ts.adminToken))
	for _, table := range []*conns.Table{ts.local.connections, ts.remote.connections} {
		if _, idle, closed := table.Figures(); idle > conns.MaxIdle || closed < 1200 {
			t.Errorf("%d do nothing, %d were closed", idle, closed)
		}
	}
	for { // the connection on which something was asked is still open
		line, err := events.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, `"name":"harmless-`) {
			break
		}
	}
}

// TestSlowBodiesTakeNothingFromOthers has 450 requests of one user wait for their bodies.
func TestSlowBodiesTakeNothingFromOthers(t *testing.T) {
	ts := startServer(t)
	for range 450 {
		ts.sendAs(
			t, attacker,
			"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: jobd\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{",
		)
	}
	waitFor(t, "they are served, wait or are refused", func() bool {
		held, waiting, refused := ts.local.shares.All()["write"].Figures()
		return held == 100 && waiting+int(refused) == 350
	})
	mustServe(t, ts.clientAs(t, other), ts.client(t))
}

// TestUnreadListsTakeNothingFromOthers has 450 requests of one user wait until their answers are read.
func TestUnreadListsTakeNothingFromOthers(t *testing.T) {
	ts := startServer(t)
	for i := range 4 {
		ts.putConfigMap(t, fmt.Sprint("c", i), strings.Repeat("x", 900_000))
	}
	for range 450 {
		ts.sendAs(t, attacker, "GET /api/v1/configmaps HTTP/1.1\r\nHost: jobd\r\n\r\n")
	}
	waitFor(t, "they are served, wait or are refused", func() bool {
		held, waiting, refused := ts.local.shares.All()["list"].Figures()
		return held == flowcontrol.MaxListsOfOne && waiting+int(refused) == 450-flowcontrol.MaxListsOfOne
	})
	mustServe(t, ts.clientAs(t, other), ts.client(t))
}

// TestWatchesTakeNothingFromOthers has one user ask for more watches than all users together may have.
func TestWatchesTakeNothingFromOthers(t *testing.T) {
	ts := startServer(t, func(c *Config) { c.MaxStreams = 1500 })
	there, err := ts.client(t).CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	version := there.ResourceVersion
	var answered sync.WaitGroup
	answers := make(chan string, 1600)
	for i := range 1600 {
		if i%100 == 0 {
			answered.Wait() // a connection does nothing until its request has been read
		}
		c := ts.sendAs(t, attacker, "GET /api/v1/configmaps?watch=true&resourceVersion="+version+" HTTP/1.1\r\nHost: jobd\r\n\r\n")
		answered.Go(func() {
			line, _ := bufio.NewReader(c).ReadString('\n')
			answers <- strings.TrimSpace(line)
		})
	}
	answered.Wait()
	close(answers)
	count := map[string]int{}
	for line := range answers {
		count[line]++
	}
	if count["HTTP/1.1 200 OK"] != 750 || count["HTTP/1.1 429 Too Many Requests"] != 850 {
		t.Errorf("%v", count)
	}
	for _, c := range []*kubernetes.Clientset{ts.clientAs(t, other), ts.client(t)} {
		w, err := c.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		w.Stop()
		mustServe(t, c)
	}
}

// TestUnreadWatchesTakeNothingFromOthers has 450 watches of one user wait until their initial events are read.
func TestUnreadWatchesTakeNothingFromOthers(t *testing.T) {
	ts := startServer(t)
	for i := range 30 {
		ts.putConfigMap(t, fmt.Sprint("c", i), strings.Repeat("x", 900_000))
	}
	for range 450 {
		ts.sendAs(t, attacker, "GET /api/v1/configmaps?watch=true HTTP/1.1\r\nHost: jobd\r\n\r\n")
	}
	waitFor(t, "they are served, wait or are refused", func() bool {
		held, waiting, refused := ts.local.shares.All()["list"].Figures()
		return held == flowcontrol.MaxListsOfOne && waiting+int(refused) == 450-flowcontrol.MaxListsOfOne
	})
	for _, c := range []*kubernetes.Clientset{ts.clientAs(t, other), ts.client(t)} {
		for range 2 * flowcontrol.MaxListsOfOne { // watches that have begun take no place any more
			w, err := c.BatchV1().Jobs("default").Watch(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			mustServe(t, c)
			if e := <-w.ResultChan(); e.Type != watch.Added {
				t.Errorf("%+v", e)
			}
		}
	}
	// A client that reads gets all of it.
	w, err := ts.client(t).CoreV1().ConfigMaps("").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	got := sets.New[string]()
	for e := range w.ResultChan() {
		if got.Insert(e.Object.(*corev1.ConfigMap).Name); got.Len() == 30 {
			break
		}
	}
}

// TestTheAdministratorAlwaysHasPlaces has two users take all there are.
func TestTheAdministratorAlwaysHasPlaces(t *testing.T) {
	ts := startServer(t, func(c *Config) { c.MaxStreams = 10 })
	const ask = "GET /api/v1/configmaps?watch=true HTTP/1.1\r\nHost: jobd\r\n\r\n"
	for i := range 10 {
		c := ts.sendAs(t, attacker-i, ask)
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, "200 OK") {
			t.Fatal(i, line, err)
		}
	}
	refused, err := http.ReadResponse(bufio.NewReader(ts.sendAs(t, attacker-10, ask)), nil)
	if err != nil || refused.StatusCode != http.StatusTooManyRequests || refused.Header.Get("Retry-After") != "1" {
		t.Fatal(refused, err)
	}
	defer refused.Body.Close()
	said, _ := io.ReadAll(refused.Body)
	if want := "jobd:uid:65524 may have 5 at a time, and all clients together 10"; !strings.Contains(string(said), want) {
		t.Errorf("%s does not say: %s", said, want)
	}
	w, err := ts.client(t).CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.Stop()

	shown := prometheus.NewRegistry()
	unregister, err := ts.Register(shown)
	if err != nil {
		t.Fatal(err)
	}
	families, err := shown.Gather()
	if err != nil {
		t.Fatal(err)
	}
	const refusals = `label:{name:"kind" value:"stream"} label:{name:"listener" value:"socket"} counter:{value:1}`
	if text := strings.Join(strings.Fields(fmt.Sprint(families)), " "); !strings.Contains(text, refusals) {
		t.Errorf("the metrics do not show the refusal: %s", text)
	}
	unregister()
}

func TestWhichPlacesARequestNeeds(t *testing.T) {
	ts := startServer(t)
	all := ts.local.shares.All()
	resolver := &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	for asked, want := range map[string]string{
		"GET /api/v1/pods": "list read", "GET /api/v1/pods?limit=500": "read", "GET /api/v1/pods?limit=501": "list read",
		"GET /api/v1/pods?limit=x": "list read", "GET /api/v1/pods?watch=1&resourceVersion=5": "stream",
		"GET /api/v1/pods?watch=1": "stream list", "GET /api/v1/pods?watch=1&sendInitialEvents=false": "stream",
		"GET /api/v1/pods?watch=1&resourceVersion=5&sendInitialEvents=true": "stream list", "GET /api/v1/namespaces/a/pods/b": "read",
		"GET /api/v1/namespaces/a/pods/b/log": "stream", "POST /api/v1/namespaces/a/pods/b/exec": "session",
		"GET /api/v1/namespaces/a/pods/b/attach": "session", "GET /api/v1/namespaces/a/pods/b/portforward": "session",
		"PUT /api/v1/namespaces/a/pods/b/proxy/c/d": "session",
		"DELETE /api/v1/namespaces/a/pods":          "list write", "POST /api/v1/namespaces/a/pods": "write", "PATCH /api/v1/namespaces/a/pods/b": "write",
		"POST /jobd/v1/images?op=import": "image", "GET /jobd/v1/images": "stream", "GET /livez": "read", "GET /debug/pprof/profile": "stream",
	} {
		method, path, _ := strings.Cut(asked, " ")
		r, err := http.NewRequestWithContext(t.Context(), method, path, nil)
		if err != nil {
			t.Fatal(err)
		}
		info, err := resolver.NewRequestInfo(r)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, needed := range ts.local.shares.Needed(r, info) {
			for name, of := range all {
				if of == needed {
					names = append(names, name)
				}
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s needs %s, not %s", asked, want, got)
		}
	}
}

// TestLargeAnswersTakeNothingFromOthers has a user that reads none of the large objects that it asks for.
func TestLargeAnswersTakeNothingFromOthers(t *testing.T) {
	ts := startServer(t)
	large := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "large"}, Data: map[string]string{"a": strings.Repeat("x", 1<<20)}}
	mustMake(t, ts.client(t).CoreV1().ConfigMaps("default"), large)
	const path = "/api/v1/namespaces/default/configmaps/large"
	for range 2 * flowcontrol.MaxHeldOfOne >> 20 {
		c := ts.dialAs(t, attacker)
		if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
			t.Fatal(err)
		}
	}
	for {
		if held, refused := ts.local.shares.Held(); refused > 0 {
			if held > flowcontrol.MaxHeldOfOne {
				t.Errorf("%d bytes are held", held)
			}
			break
		}
		runtime.Gosched()
	}
	if _, err := ts.client(t).CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
}

// TestUpdatesOfLargeObjectsTakeNothingFromOthers has a user change large objects by patches of a few bytes, and then delete them all.
func TestUpdatesOfLargeObjectsTakeNothingFromOthers(t *testing.T) {
	ts := startServer(t)
	const n, size = 40, 2_900_000
	events := ts.client(t).CoreV1().Events("default")
	for i := range 4 {
		in := metav1.ObjectMeta{Name: fmt.Sprint("e", i), Namespace: "default"}
		mustMake(t, events, &corev1.Event{ObjectMeta: in, InvolvedObject: corev1.ObjectReference{Namespace: "default"}, Message: strings.Repeat("x", size)})
	}
	var answered sync.WaitGroup
	for i := range n {
		patch := fmt.Sprintf(`{"reason": "r%d"}`, i)
		c := ts.sendAs(t, attacker, fmt.Sprintf("PATCH /api/v1/namespaces/default/events/e%d HTTP/1.1\r\nHost: x\r\n"+
			"Content-Type: application/merge-patch+json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", i%4, len(patch), patch))
		answered.Go(func() {
			answer, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer answer.Body.Close()
			_, _ = io.Copy(io.Discard, answer.Body)
			if answer.StatusCode != 200 && answer.StatusCode != http.StatusTooManyRequests {
				t.Errorf("a patch: %s", answer.Status)
			}
		})
	}
	over := make(chan struct{})
	go func() { answered.Wait(); close(over) }()
	most := 0
	for going := true; going; runtime.Gosched() {
		select {
		case <-over:
			going = false
		default:
			held, _ := ts.local.shares.Held()
			most = max(most, held)
		}
	}
	if most < 2*size || most > flowcontrol.MaxHeldOfOne {
		t.Errorf("%d bytes were held", most)
	}
	if err := ts.clientAs(t, attacker).CoreV1().Events("default").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	waitFor(t, "all is given back", func() bool {
		held, _ := ts.local.shares.Held()
		return held == 0
	})
}
