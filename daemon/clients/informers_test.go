package clients

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/store"
)

func newJob(name string, completions int32, annotations map[string]string) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: batchv1.JobSpec{
			Completions: &completions, Parallelism: ptr.To[int32](2),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Annotations: annotations},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever,
					Containers:    []corev1.Container{{Name: "c", Image: "busybox"}},
				},
			},
		},
	}
}

// observer is an informer that remembers the versions of each object in the order in which it was told them.
type observer struct {
	name, resource string
	late           bool // it began when something was there already
	informer       cache.SharedInformer
	// A connection to a daemon that is just being killed can be made and then reset, instead of being refused. client-go takes that
	// for a broken watch: it lists anew, and is not told what came between.
	reset atomic.Bool

	mu   sync.Mutex
	seen map[string][]uint64 // by namespace/name
}

func (o *observer) note(obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj // found out by a list: its version is that of an older state
	}
	m := obj.(metav1.Object)
	version, err := strconv.ParseUint(m.GetResourceVersion(), 10, 64)
	if err != nil {
		panic(err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	key := m.GetNamespace() + "/" + m.GetName()
	o.seen[key] = append(o.seen[key], version)
}

// told is of how many versions it has been notified.
func (o *observer) told() (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, versions := range o.seen {
		n += len(versions)
	}
	return n
}

// plainList takes WatchList from a client.
type plainList struct{ *cache.ListWatch }

func (plainList) IsWatchListSemanticsUnSupported() bool { return true }

// observe begins to follow a resource.
func observe(t *testing.T, ctx context.Context, name string, config *rest.Config, resource string, watchList, late bool) *observer {
	o := &observer{name: name + "/" + resource, resource: resource, late: late, seen: map[string][]uint64{}}
	config = rest.CopyConfig(config)
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			response, err := rt.RoundTrip(r)
			if err != nil && r.URL.Query().Has("watch") && !utilnet.IsConnectionRefused(err) {
				o.reset.Store(true)
			}
			return response, err
		})
	})
	c := clientset(t, config)
	var client cache.Getter = c.BatchV1().RESTClient()
	var example runtime.Object = &batchv1.Job{}
	if resource == "pods" {
		client, example = c.CoreV1().RESTClient(), &corev1.Pod{}
	}
	listWatch := cache.NewListWatchFromClient(client, resource, metav1.NamespaceAll, fields.Everything())
	var lw cache.ListerWatcher = listWatch
	if !watchList {
		lw = plainList{listWatch}
	}
	o.informer = cache.NewSharedInformer(lw, example, 0)
	_, err := o.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    o.note,
		UpdateFunc: func(_, obj any) { o.note(obj) },
		DeleteFunc: o.note,
	})
	if err != nil {
		panic(err)
	}
	go o.informer.RunWithContext(ctx)
	return o
}

// TestInformersMissNothingOverRestarts follows Jobs and pods with every kind of informer while Jobs come, run and go and
// the daemon is killed. Each informer is told each version of each object, in order and once, as the daemon's log has it; one whose
// connection was reset, at least of the last.
func TestInformersMissNothingOverRestarts(t *testing.T) {
	t.Parallel()
	d := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var streamed, listed atomic.Int64
	count := func(config *rest.Config) {
		config.Wrap(func(rt http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				q := r.URL.Query()
				switch {
				case q.Get("sendInitialEvents") == "true":
					streamed.Add(1)
				case r.Method == http.MethodGet && !q.Has("watch"):
					listed.Add(1)
				}
				return rt.RoundTrip(r)
			})
		})
	}
	var observers []*observer
	begin := func(late bool) {
		for name, config := range map[string]*rest.Config{"socket": d.socket(), "network": d.network()} {
			count(config)
			for _, encoding := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
				config := rest.CopyConfig(config)
				config.ContentType = encoding
				for _, watchList := range []bool{true, false} {
					for _, resource := range []string{"jobs", "pods"} {
						name := fmt.Sprintf("%s %s WatchList=%v late=%v", name, encoding, watchList, late)
						observers = append(observers, observe(t, ctx, name, config, resource, watchList, late))
					}
				}
			}
		}
		for _, o := range observers {
			eventually(t, o.name+" is synchronized", func() error {
				if !o.informer.HasSynced() {
					return errNotYet
				}
				return nil
			})
		}
	}
	c := clientset(t, d.socket())
	begin(false)
	writeRound(t, c, d, observers, 0)
	begin(true)
	for round := 1; round <= 2; round++ {
		writeRound(t, c, d, observers, round)
	}

	// Nothing moves any more when all Jobs have ended and every informer is at the end.
	for _, o := range observers {
		eventually(t, o.name+" has seen the end", func() error { return o.sameAs(ctx, c) })
	}
	if streamed.Load() < 16 || listed.Load() < 16 {
		t.Errorf("%d initial streams, %d lists: both kinds were to be tried", streamed.Load(), listed.Load())
	}
	cancel()
	s := d.database()
	for _, o := range observers {
		o.compare(t, s)
	}
}

// writeRound makes Jobs, changes and deletes some of them, kills the daemon in the middle, and waits until all is done.
func writeRound(t *testing.T, c *kubernetes.Clientset, d *daemon, observers []*observer, round int) {
	t.Helper()
	before := map[*observer]int{}
	for _, o := range observers {
		before[o] = o.told()
	}
	jobs := c.BatchV1().Jobs("default")
	const writers, each = 3, 6
	var wg sync.WaitGroup
	var written atomic.Int64
	half := make(chan struct{})
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				name := fmt.Sprintf("j-%d-%d-%d", round, w, i)
				annotations := map[string]string{"jobd.dev/simulate-duration": fmt.Sprintf("%dms", 10*i)}
				insist(t, name, func() error {
					_, err := jobs.Create(t.Context(), newJob(name, 3, annotations), metav1.CreateOptions{})
					return ignore(err, "AlreadyExists")
				})
				insist(t, name, func() error {
					_, err := jobs.Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"labels":{"touched":"yes"}}}`), metav1.PatchOptions{})
					return err
				})
				if i%3 == 2 {
					insist(t, name, func() error {
						err := jobs.Delete(t.Context(), name, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)})
						return ignore(err, "NotFound")
					})
				}
				if written.Add(1) == writers*each/2 {
					close(half)
				}
			}
		})
	}
	<-half
	// A watch that ends soon and has told nothing is a broken one to clients: they list anew, and miss what came between.
	for _, o := range observers {
		eventually(t, o.name+" is told something", func() error {
			if o.told() == before[o] {
				return errNotYet
			}
			return nil
		})
	}
	d.kill()
	d.serve()
	wg.Wait()
	eventually(t, "all Jobs end", func() error {
		list, err := jobs.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, j := range list.Items {
			if j.Status.CompletionTime == nil {
				return fmt.Errorf("%s: %+v", j.Name, j.Status)
			}
		}
		return nil
	})
}

// insist repeats a request while the daemon is away.
func insist(t *testing.T, what string, try func() error) {
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if err = try(); err == nil {
			return
		}
	}
	t.Errorf("%s: %v", what, err)
}

func ignore(err error, reason metav1.StatusReason) error {
	if status, ok := err.(interface{ Status() metav1.Status }); ok && status.Status().Reason == reason {
		return nil
	}
	return err
}

// sameAs compares the informer's objects with what the API has.
func (o *observer) sameAs(ctx context.Context, c *kubernetes.Clientset) error {
	versions := map[string]string{}
	if o.resource == "jobs" {
		list, err := c.BatchV1().Jobs("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, j := range list.Items {
			versions[j.Namespace+"/"+j.Name] = j.ResourceVersion
		}
	} else {
		list, err := c.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, p := range list.Items {
			versions[p.Namespace+"/"+p.Name] = p.ResourceVersion
		}
	}
	have := o.informer.GetStore().List()
	if len(have) != len(versions) {
		return fmt.Errorf("%d objects, there are %d", len(have), len(versions))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, obj := range have {
		m := obj.(metav1.Object)
		key := m.GetNamespace() + "/" + m.GetName()
		if m.GetResourceVersion() != versions[key] {
			return fmt.Errorf("%s has version %s, not %s", key, m.GetResourceVersion(), versions[key])
		}
		if seen := o.seen[key]; len(seen) == 0 || strconv.FormatUint(seen[len(seen)-1], 10) != versions[key] {
			return fmt.Errorf("%s: told of %v, not yet of %s", key, seen, versions[key])
		}
	}
	return nil
}

// compare finds what the informer was told in the daemon's log.
func (o *observer) compare(t *testing.T, s *store.Store) {
	t.Helper()
	prefix := o.resource + "/"
	if o.resource == "jobs" {
		prefix = "jobs.batch/"
	}
	log, alive := map[string][]uint64{}, map[string]bool{}
	err := s.View(func(sn *store.Snapshot) error {
		if sn.Horizon() != store.FirstVersion {
			t.Fatal("the log was cut: the test writes too much")
		}
		return sn.Changes(store.FirstVersion, func(c store.Change) bool {
			if key, ok := strings.CutPrefix(c.Object.Key, prefix); ok {
				log[key] = append(log[key], c.Version)
				alive[key] = !c.Deleted
			}
			return true
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	told := 0
	for _, key := range slices.SortedFunc(keys(log, o.seen), cmp.Compare[string]) {
		want, seen := log[key], o.seen[key]
		told += len(seen)
		if o.late && !alive[key] && len(seen) == 0 {
			continue // gone before it came
		}
		if o.late {
			// The first that it was told is the state that it found.
			if i := slices.Index(want, append(seen, 0)[0]); i >= 0 {
				want = want[i:]
			}
		}
		if o.reset.Load() {
			want = slices.DeleteFunc(slices.Clone(want), func(version uint64) bool { return !slices.Contains(seen, version) })
		}
		if !slices.Equal(want, seen) {
			t.Errorf("%s: %s: was told of the versions %v, the log has %v", o.name, key, seen, want)
		}
	}
	if told < 100 && o.resource == "pods" || told < 50 {
		t.Errorf("%s: told of %d versions only", o.name, told)
	}
}

func keys[V any](maps ...map[string]V) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		done := map[string]bool{}
		for _, m := range maps {
			for k := range m {
				if !done[k] && !yield(k) {
					return
				}
				done[k] = true
			}
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
