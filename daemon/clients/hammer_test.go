package clients

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apischeme "github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

// JOBD_HAMMER is for how long the hammer goes on, such as 10m, and JOBD_HAMMER_SEED repeats what a run has said it began
// with. However slow the machine, there are enough requests that every kind of answer is among them.
const (
	hammerEnv      = "JOBD_HAMMER"
	hammerSeedEnv  = "JOBD_HAMMER_SEED"
	hammerTime     = 30 * time.Second
	hammerRequests = 3000
	hammerClients  = 6
	// hammerMemory bounds what the daemon has of its own (RssAnon) at the end, in MB. It is several times what is needed:
	// the race detector's share is in it.
	hammerMemory = 1500
)

// TestHammer sends random requests from many clients at once: sound ones, ones that are nearly so and nonsense, for every
// kind and verb, while others watch or never read what they have asked for. Nothing that a client sends may be the
// daemon's fault: no panic, no status 500, no memory without bound, and the database is sound after.
func TestHammer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute of all processors")
	}
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	if given := os.Getenv(hammerSeedEnv); given != "" {
		var err error
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	lasts := hammerTime
	if given := os.Getenv(hammerEnv); given != "" {
		var err error
		if lasts, err = time.ParseDuration(given); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("repeat with %s=%d", hammerSeedEnv, seed)
		}
	})
	d := start(t)
	var made atomic.Int64
	end := time.Now().Add(lasts)
	more := func() bool { return made.Add(1) <= hammerRequests || time.Now().Before(end) }
	h := &hammer{t: t, socket: filepath.Join(d.dir, "state", "jobd.sock"), codes: map[string]int{}}

	watching, stop := context.WithCancel(ctx)
	defer stop()
	var watchers sync.WaitGroup
	for _, path := range []string{"/api/v1/pods", "/apis/batch/v1/jobs", "/api/v1/events"} {
		watchers.Go(func() { h.follow(watching, path+"?watch=true&allowWatchBookmarks=true") })
		for range 3 {
			h.neverRead(watching, path+"?watch=true&resourceVersion=0")
		}
	}
	var clients sync.WaitGroup
	for i := range uint64(hammerClients) {
		clients.Go(func() {
			g := newGenerator(rand.New(rand.NewPCG(seed, i)))
			client := &http.Client{Transport: &http.Transport{DialContext: h.dial}, Timeout: patience}
			defer client.CloseIdleConnections()
			for more() && h.faults.Load() < 20 {
				h.send(ctx, client, g.request())
			}
		})
	}
	clients.Wait()
	stop()
	watchers.Wait()

	memory := d.memory("RssAnon") >> 20
	t.Logf("seed %d: %d requests, %d events, RssAnon %d MB, %v", seed, made.Load(), h.events.Load(), memory, h.codes)
	if memory > hammerMemory {
		t.Errorf("the daemon has %d MB of its own", memory)
	}
	for _, code := range []string{"200", "201", "400", "404", "409", "422"} {
		if h.codes[code] == 0 {
			t.Errorf("no request was answered with %s: they are not diverse enough", code)
		}
	}
	if h.events.Load() < 100 {
		t.Errorf("%d events were seen", h.events.Load())
	}
	h.everythingIsListed()
	for line := range strings.Lines(d.output.String()) {
		// The libraries take the faults of clients for errors; a panic they take for one too.
		if strings.Contains(line, "panic") || strings.Contains(line, "level=ERROR") && !strings.Contains(line, "component=kubernetes") {
			t.Errorf("the daemon says: %s", line)
		}
	}
	decodeEverything(t, d.database())
	d.serveAgain()
}

type hammer struct {
	t      *testing.T
	socket string
	events atomic.Int64
	faults atomic.Int64 // enough of them end the test

	mu    sync.Mutex
	codes map[string]int
}

func (h *hammer) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "unix", h.socket)
}

// send makes a request and looks at no more than how it ends.
func (h *hammer) send(ctx context.Context, client *http.Client, q request) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, q.method, "http://jobd"+q.path, bytes.NewReader(q.body))
	if err != nil {
		return // not even a URL
	}
	r.Header = q.header
	resp, err := client.Do(r)
	if err != nil {
		h.t.Errorf("%s: %v", q, err)
		return
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	h.mu.Lock()
	h.codes[strconv.Itoa(resp.StatusCode)]++
	h.mu.Unlock()
	switch {
	case err != nil:
		h.t.Errorf("%s: %d: %v", q, resp.StatusCode, err)
	case resp.StatusCode == http.StatusGatewayTimeout && bytes.Contains(answer, []byte("Too large resource version")):
	case resp.StatusCode >= 500:
		h.faults.Add(1)
		h.t.Errorf("%s: %d: %.2000s", q, resp.StatusCode, answer)
	}
}

// follow reads a watch, and another one when it ends.
func (h *hammer) follow(ctx context.Context, path string) {
	client := &http.Client{Transport: &http.Transport{DialContext: h.dial}}
	defer client.CloseIdleConnections()
	for ctx.Err() == nil {
		r, err := http.NewRequestWithContext(ctx, "GET", "http://jobd"+path, nil)
		if err != nil {
			h.t.Error(err)
			return
		}
		resp, err := client.Do(r)
		if err != nil {
			if ctx.Err() == nil {
				h.t.Error(err)
			}
			return
		}
		_, _ = io.Copy(writerFunc(func(p []byte) (int, error) { h.events.Add(int64(bytes.Count(p, []byte("\n")))); return len(p), nil }), resp.Body)
		_ = resp.Body.Close()
	}
}

// neverRead asks for a watch and leaves what comes where it is.
func (h *hammer) neverRead(ctx context.Context, path string) {
	conn, err := h.dial(ctx, "", "")
	if err != nil {
		h.t.Fatal(err)
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: jobd\r\n\r\n", path)
}

// everythingIsListed reads all objects of all kinds in all encodings.
func (h *hammer) everythingIsListed() {
	client := &http.Client{Transport: &http.Transport{DialContext: h.dial}}
	defer client.CloseIdleConnections()
	for _, k := range apischeme.Kinds() {
		for _, accept := range []string{
			"application/json", "application/yaml", "application/vnd.kubernetes.protobuf",
			"application/json;as=Table;g=meta.k8s.io;v=v1",
		} {
			h.send(h.t.Context(), client, request{method: "GET", path: root(k.GroupVersion) + "/" + k.Resource, header: http.Header{"Accept": {accept}}})
		}
	}
}

// memory reads one of the sizes that the kernel reports for the daemon, in bytes.
func (d *daemon) memory(name string) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.process.Process.Pid))
	if err != nil {
		d.t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			if err != nil {
				d.t.Fatal(err)
			}
			return kb << 10
		}
	}
	d.t.Fatalf("%s is not in: %s", name, status)
	return 0
}

// decodeEverything finds that what is stored can be read, and that it is what its key says.
func decodeEverything(t *testing.T, s *store.Store) {
	t.Helper()
	kinds := map[string]func() object{}
	for _, k := range apischeme.Kinds() {
		kinds[k.GroupResource().String()] = func() object { return k.New().(object) }
	}
	found := map[string]int{}
	for key, o := range everything(t, s) {
		resource, rest, _ := strings.Cut(key, "/")
		make := kinds[resource]
		if make == nil {
			continue // the daemon's own memories
		}
		obj := make()
		if err := apischeme.Decode(o.Value, obj); err != nil {
			t.Errorf("%s: %v", key, err)
			continue
		}
		if want := strings.TrimPrefix(obj.GetNamespace()+"/"+obj.GetName(), "/"); want != rest || string(obj.GetUID()) != o.UID || o.UID == "" {
			t.Errorf("%s holds %s with uid %q, stored with %q", key, want, obj.GetUID(), o.UID)
		}
		owners := map[string]bool{}
		for _, r := range obj.GetOwnerReferences() {
			owners[string(r.UID)] = true
		}
		known := map[string]bool{}
		for _, uid := range o.Owners {
			known[uid] = true
		}
		if !maps.Equal(owners, known) {
			t.Errorf("%s is owned by %v, stored as %v", key, owners, known)
		}
		found[resource]++
	}
	t.Log("left: ", found)
	if len(found) < 8 {
		t.Errorf("objects of %d kinds only", len(found))
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// serveAgain takes up what is left, and reads all of it.
func (d *daemon) serveAgain() {
	d.t.Helper()
	d.serve()
	list := clientset(d.t, d.socket()).RESTClient().Get().AbsPath("/api/v1/pods").Do(d.t.Context())
	if err := list.Error(); err != nil {
		d.t.Error(err)
	}
}
