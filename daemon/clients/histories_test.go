package clients

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/store"
)

// JOBD_HISTORIES is how many histories there are, and JOBD_HISTORIES_SEED repeats what a run has said it began with, as far as the
// moments of a kill can be repeated.
const (
	historiesEnv     = "JOBD_HISTORIES"
	historiesSeedEnv = "JOBD_HISTORIES_SEED"
	histories        = 8
	// historiesOfADaemon is for how many histories one daemon serves: its log keeps all of their changes.
	historiesOfADaemon = 10

	historyClients  = 6
	historyObjects  = 2  // of a resource
	historyRequests = 40 // of a client that are answered
	historyDisk     = 64 << 20
)

// TestHistories has clients create, read, change and delete the same few objects, with and without preconditions, while the daemon
// is killed, stopped for a while or finds its disk full. What they were told can be put into one order in which each request takes
// effect at some moment between question and answer (they are linearizable), and a request that was refused has no effect. Each list is the
// state of one moment, none older than what was answered before it; each watch tells all changes once and in order, across kills.
func TestHistories(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	t.Parallel()
	given := func(name string, otherwise uint64) uint64 {
		if value := os.Getenv(name); value != "" {
			return number(t, value)
		}
		return otherwise
	}
	seed, all := given(historiesSeedEnv, uint64(time.Now().UnixNano())), given(historiesEnv, histories)
	t.Logf("%s=%d", historiesSeedEnv, seed)
	told := map[string]int{}
	for begun := uint64(0); begun < all && !t.Failed(); {
		d := startOnDisk(t, historyDisk)
		var batch []*history
		for range min(historiesOfADaemon, all-begun) {
			h := newHistory(t, d, seed+begun)
			h.run()
			h.check()
			batch = append(batch, h)
			begun++
			for what, n := range h.told {
				told[what] += n
			}
		}
		log := changes(t, d)
		for _, h := range batch {
			h.compare(log)
		}
	}
	t.Logf("%d histories: %v", all, told)
	for _, what := range []string{"get done", "get absent", "create done", "create exists", "update done", "update conflict", "delete done", "kill", "stop"} {
		if told[what] == 0 {
			t.Errorf("no %s was tried", what)
		}
	}
}

// startOnDisk starts a daemon whose root has a file system of its own, where that can be mounted.
func startOnDisk(t *testing.T, size int64) *daemon {
	t.Helper()
	return start(t, func(d *daemon) {
		root := filepath.Join(d.dir, "root")
		if err := os.MkdirAll(root, 0o700); err != nil {
			t.Fatal(err)
		}
		if syscall.Mount("tmpfs", root, "tmpfs", 0, fmt.Sprintf("size=%d", size)) == nil {
			d.disk = root
			t.Cleanup(func() { _ = syscall.Unmount(root, syscall.MNT_DETACH) })
		}
	})
}

// resources are kinds whose objects the daemon itself leaves alone: the Job has another manager, the CronJob is suspended.
var resources = []struct {
	schema.GroupVersionResource
	kind string
	spec map[string]any
}{
	{schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "ConfigMap", nil},
	{schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "cronjobs"}, "CronJob", map[string]any{
		"schedule": "0 0 1 1 *", "suspend": true, "jobTemplate": map[string]any{"spec": map[string]any{"template": podTemplate}},
	}},
	{schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}, "Job", map[string]any{
		"managedBy": "example.com/nobody", "template": podTemplate,
		"manualSelector": true, "selector": map[string]any{"matchLabels": podLabels}, // as an update must name what a create may leave out
	}},
}

var (
	podLabels   = map[string]any{"of": "nobody"}
	podTemplate = map[string]any{
		"metadata": map[string]any{"labels": podLabels},
		"spec": map[string]any{
			"restartPolicy": "Never", "containers": []any{map[string]any{"name": "c", "image": "busybox"}},
		},
	}
)

// history is what some clients asked and were told.
type history struct {
	t    *testing.T
	d    *daemon
	seed uint64
	name string

	mu         sync.Mutex
	operations []porcupine.Operation
	values     map[string]string // by object and version, as clients were told
	newest     uint64            // version that any client was told of
	told       map[string]int
	lists      []listing
	watchers   []*watcher
}

type listing struct {
	resource         int
	version, atLeast uint64
	objects          map[string]uint64 // versions by name
}

func newHistory(t *testing.T, d *daemon, seed uint64) *history {
	return &history{t: t, d: d, seed: seed, name: fmt.Sprintf("h%d", seed), values: map[string]string{}, told: map[string]int{}}
}

func (h *history) options() metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: "history=" + h.name}
}

// run has all clients make their requests, and waits for them.
func (h *history) run() {
	random := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(h.seed, n)) }
	ctx, cancel := context.WithCancel(h.t.Context())
	defer cancel()
	var watching, asking sync.WaitGroup
	for _, c := range []dynamic.Interface{h.client(false), h.client(true)} {
		for resource := range resources {
			w := &watcher{history: h, resource: resource, current: map[string]uint64{}}
			h.watchers = append(h.watchers, w)
			watching.Go(func() { w.follow(ctx, c) })
		}
	}
	asked := make(chan struct{})
	for i := range historyClients {
		asking.Go(func() { h.ask(h.client(i%2 == 0), i, random(uint64(i))) })
	}
	go func() { asking.Wait(); close(asked) }()
	h.disturb(random(100), asked)
	<-asked
	// What is there at the end says which of the requests that nobody answered were carried out.
	c := h.client(false)
	last := map[string]uint64{}
	for resource := range resources {
		for n := range historyObjects {
			q := question{verb: "get", object: h.object(resource, n)}
			insist(h.t, "the last state", func() error {
				a, err := h.request(c, historyClients, resource, q)
				if err == nil && a.outcome == done {
					last[q.object] = number(h.t, a.version)
				}
				return err
			})
		}
	}
	for _, w := range h.watchers {
		eventually(h.t, "a watch has seen the end", func() error { return w.sees(last) })
	}
	cancel()
	watching.Wait()
}

func (h *history) client(network bool) dynamic.Interface {
	config := h.d.socket()
	if network {
		config = h.d.network()
	}
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

func (h *history) object(resource, n int) string {
	return fmt.Sprintf("%s/%s-%d", resources[resource].GroupResource(), h.name, n)
}

// isOf says whether an object is of a resource.
func (h *history) isOf(resource int, object string) bool {
	return strings.HasPrefix(object, resources[resource].GroupResource().String()+"/")
}

// disturb makes trouble for the daemon until the clients are through.
func (h *history) disturb(r *rand.Rand, asked <-chan struct{}) {
	pause := func(most int) { time.Sleep(time.Duration(r.IntN(most)) * time.Millisecond) }
	for n := range 1 + r.IntN(3) {
		pause(400)
		select {
		case <-asked:
			return
		default:
		}
		switch trouble := (h.seed + uint64(n)) % 4; {
		case trouble == 0:
			h.count("stop")
			_ = h.d.process.Process.Signal(syscall.SIGSTOP)
			pause(300)
			_ = h.d.process.Process.Signal(syscall.SIGCONT)
		case trouble == 1 && h.d.disk != "":
			h.count("full disk")
			filler := filepath.Join(h.d.disk, "filler")
			_ = os.WriteFile(filler, make([]byte, historyDisk), 0o600)
			pause(600)
			_ = os.Remove(filler)
		default:
			h.count("kill")
			h.d.kill()
			pause(50)
			h.d.serve()
		}
	}
}

func (h *history) count(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told[what]++
}

// ask makes random requests, and a list now and then.
func (h *history) ask(c dynamic.Interface, client int, r *rand.Rand) {
	known := map[string]string{} // version by object, as this client was told of it last
	for i, answered := 0, 0; answered < historyRequests; i++ {
		resource := r.IntN(len(resources))
		if r.IntN(12) == 0 {
			h.list(c, resource)
		}
		q := question{verb: []string{"get", "create", "update", "update", "delete"}[r.IntN(5)], object: h.object(resource, r.IntN(historyObjects))}
		if q.verb == "create" || q.verb == "update" {
			q.value = fmt.Sprintf("%d-%d", client, i)
		}
		if (q.verb == "update" || q.verb == "delete") && r.IntN(3) > 0 {
			q.version = known[q.object]
		}
		q.orphan = q.verb == "delete" && resources[resource].kind == "Job" && r.IntN(2) == 0
		a, err := h.request(c, client, resource, q)
		if err == nil {
			answered++
		}
		if a.version != "" {
			known[q.object] = a.version
		}
		time.Sleep(time.Duration(r.IntN(10)) * time.Millisecond)
	}
}

// request makes a request and notes its answer. One that the daemon has refused, or that did not reach it, must have no effect: it
// is no part of the history, and whoever reads what it would have written finds the fault. The error says that nothing is known.
func (h *history) request(c dynamic.Interface, client, resource int, q question) (answer, error) {
	kind := resources[resource]
	_, name, _ := strings.Cut(q.object, "/")
	objects := c.Resource(kind.GroupVersionResource).Namespace("default")
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetAPIVersion(kind.GroupVersion().String())
	object.SetKind(kind.kind)
	object.SetName(name)
	object.SetLabels(map[string]string{"history": h.name})
	object.SetAnnotations(map[string]string{"value": q.value})
	object.SetResourceVersion(q.version)
	if kind.spec != nil {
		object.Object["spec"] = runtime.DeepCopyJSON(kind.spec)
	}
	ctx := h.t.Context()
	var got *unstructured.Unstructured
	var err error
	o := porcupine.Operation{ClientId: client, Input: q, Call: time.Now().UnixNano()}
	switch q.verb {
	case "get":
		got, err = objects.Get(ctx, name, metav1.GetOptions{})
	case "create":
		got, err = objects.Create(ctx, object, metav1.CreateOptions{})
	case "update":
		got, err = objects.Update(ctx, object, metav1.UpdateOptions{})
	case "delete":
		options := metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
		if q.orphan {
			options.PropagationPolicy = ptr.To(metav1.DeletePropagationOrphan)
		}
		if q.version != "" {
			options.Preconditions = &metav1.Preconditions{ResourceVersion: ptr.To(q.version)}
		}
		err = objects.Delete(ctx, name, options)
	}
	o.Return = time.Now().UnixNano()
	var a answer
	switch {
	case err == nil:
		a.outcome = done
	case apierrors.IsAlreadyExists(err):
		a.outcome = exists
	case apierrors.IsConflict(err):
		a.outcome = conflict
	case apierrors.IsNotFound(err):
		a.outcome = absent
	case q.verb == "get" || refused(err):
		h.count(q.verb + " refused")
		return a, err
	default:
		o.Return = math.MaxInt64 // it may still be carried out
	}
	if err == nil && got != nil {
		a.version, a.value, a.leaving = got.GetResourceVersion(), got.GetAnnotations()["value"], got.GetDeletionTimestamp() != nil
	}
	o.Output = a
	h.count(q.verb + " " + a.outcome.String())
	h.mu.Lock()
	defer h.mu.Unlock()
	h.operations = append(h.operations, o)
	if q.verb != "update" || !a.leaving { // that update wrote nothing: its answer has the version that it has removed
		h.learn(a.version, q.object, a.value)
	}
	return a, nil
}

// refused says that the daemon was not reached, or has said that it does not do what was asked.
func refused(err error) bool {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		switch status.Status().Code {
		case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusInsufficientStorage:
			return true
		}
	}
	return utilnet.IsConnectionRefused(err) || errors.Is(err, os.ErrNotExist)
}

// learn notes of what a client was told: one version has one value, whoever is told of it.
func (h *history) learn(version, object, value string) {
	if version == "" {
		return
	}
	if before, ok := h.values[object+" "+version]; ok && before != value {
		h.t.Errorf("version %s of %s has the values %q and %q", version, object, before, value)
	}
	h.values[object+" "+version] = value
	h.newest = max(h.newest, number(h.t, version))
}

func number(t testing.TB, version string) uint64 {
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		t.Error(err)
	}
	return n
}

// list notes what a list says, and how new it must be.
func (h *history) list(c dynamic.Interface, resource int) {
	h.mu.Lock()
	l := listing{resource: resource, atLeast: h.newest, objects: map[string]uint64{}}
	h.mu.Unlock()
	objects, err := c.Resource(resources[resource].GroupVersionResource).Namespace("default").List(h.t.Context(), h.options())
	if err != nil {
		h.count("list refused")
		return
	}
	h.count("list done")
	l.version = number(h.t, objects.GetResourceVersion())
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range objects.Items {
		name := resources[resource].GroupResource().String() + "/" + o.GetName()
		l.objects[name] = number(h.t, o.GetResourceVersion())
		h.learn(o.GetResourceVersion(), name, o.GetAnnotations()["value"])
	}
	h.lists = append(h.lists, l)
}

// check finds an order for all requests.
func (h *history) check() {
	h.t.Helper()
	switch result := porcupine.CheckOperationsTimeout(objects, h.operations, patience); result {
	case porcupine.Ok:
	case porcupine.Unknown:
		h.t.Errorf("%s: no order was found within %v", h.name, patience)
	default:
		result, info := porcupine.CheckOperationsVerbose(objects, h.operations, patience)
		drawing := filepath.Join(os.TempDir(), "jobd-"+h.name+".html")
		h.t.Errorf("%s: no order explains what clients were told (%v): %s (%v)", h.name, result, drawing,
			porcupine.VisualizePath(objects, info, drawing))
	}
}

// compare finds lists and watches in the log.
func (h *history) compare(log map[string][]version) {
	h.t.Helper()
	own := func(resource int) iter.Seq2[string, []version] {
		return func(yield func(string, []version) bool) {
			for n := range historyObjects {
				if name := h.object(resource, n); !yield(name, log[name]) {
					return
				}
			}
		}
	}
	for _, l := range h.lists {
		if l.version < l.atLeast {
			h.t.Errorf("%s: a list of version %d, begun when %d was known", h.name, l.version, l.atLeast)
		}
		for name, versions := range own(l.resource) {
			if is := at(versions, l.version); is != l.objects[name] {
				h.t.Errorf("%s: %s has version %d in a list of version %d; in the log %d of %v", h.name, name, l.objects[name], l.version, is, versions)
			}
		}
	}
	for _, w := range h.watchers {
		var want []event
		for name, versions := range own(w.resource) {
			for _, v := range versions {
				if v.version > w.since {
					want = append(want, event{name, v})
				}
			}
		}
		slices.SortFunc(want, func(a, b event) int { return cmp.Compare(a.version.version, b.version.version) })
		if !slices.Equal(want, w.events) {
			h.t.Errorf("%s: a watch since %d told\n%v, the log has\n%v", h.name, w.since, w.events, want)
		}
	}
}

// changes stops the daemon and reads the log of its database, by resource and name.
func changes(t *testing.T, d *daemon) map[string][]version {
	t.Helper()
	log := map[string][]version{}
	err := d.database().View(func(sn *store.Snapshot) error {
		if sn.Horizon() != store.FirstVersion {
			t.Fatal("the log was cut: one daemon has too many histories")
		}
		return sn.Changes(store.FirstVersion, func(c store.Change) bool {
			parts := strings.Split(c.Object.Key, "/")
			name := parts[0] + "/" + parts[len(parts)-1]
			log[name] = append(log[name], version{c.Version, c.Deleted})
			return true
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return log
}
