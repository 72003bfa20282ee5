package control

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/podsecurity"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/api/tokens"
	"github.com/jobd/jobd/daemon/aside"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/history"
	"github.com/jobd/jobd/daemon/host"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/metrics"
	"github.com/jobd/jobd/daemon/node"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/daemon/provision"
	"github.com/jobd/jobd/daemon/sandbox"
	"github.com/jobd/jobd/daemon/worker"
	"github.com/jobd/jobd/runtime/simulated"
	"github.com/jobd/jobd/store"
)

// world is a loop over a real store and simulated containers, in virtual time.
type world struct {
	t           *testing.T
	path        string
	store       *store.Store
	control     *Control
	inbox       *loop.Inbox
	gangs       bool // Settings.WorkloadWithJob
	clock       func() time.Time
	runtime     *simulated.Runtime
	stop        func()
	self        *corev1.Node
	devices     func() corev1.ResourceList
	allocatable node.Resources // nil: any
	steps       []worker.Step
	volumes     provision.Volumes // nil: simulated ones
	authority   string
	key         *ecdsa.PrivateKey // of tokens
	aside       *aside.List       // read anew at each start
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, path: filepath.Join(t.TempDir(), "jobd.db"), runtime: simulated.New(), clock: time.Now, authority: "one authority"}
	var err error
	if w.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	w.start()
	w.write(func(tx *store.Tx) error {
		ns := &corev1.Namespace{}
		ns.Name = "default"
		value, err := scheme.Encode(ns)
		tx.Put(store.Object{Key: store.Key(objects.Namespaces, "", "default"), Value: value})
		return err
	})
	return w
}

func (w *world) start() {
	w.t.Helper()
	var err error
	if w.store, err = store.Open(w.path, store.Options{NoSync: true}); err != nil {
		w.t.Fatal(err)
	}
	w.inbox = loop.NewInbox()
	logger, name := slog.New(slog.DiscardHandler), "test"
	if w.self != nil {
		name = w.self.Name
	}
	workers := worker.New(worker.Config{
		Runtime: w.runtime, Images: w.runtime, Spec: sandbox.SimulatedSpecs{}, Steps: w.steps, Report: w.inbox.Report, Logger: logger,
	})
	if w.volumes == nil {
		w.volumes = provision.Simulated{}
	}
	volumes := provision.New(w.volumes, w.inbox.Nudge)
	if w.aside, err = aside.Open(w.path+".aside", "v1"); err != nil {
		w.t.Fatal(err)
	}
	w.control = New(Config{
		Aside:   w.aside,
		Volumes: volumes,
		Store:   w.store, Inbox: w.inbox, Workers: workers, Logs: noLogs{},
		Settings:    job.Settings{BackoffBase: 10 * time.Second, BackoffCap: 6 * time.Minute, WorkloadWithJob: w.gangs},
		PodSecurity: w.security(), MaxPods: 1000, Allocatable: w.allocatable,
		NodeName: name, NodeIP: "127.0.0.1", NodeLabels: hostLabels, Node: w.self, Devices: w.devices,
		Epoch:   "one",
		RootCA:  []byte(w.authority),
		Tokens:  w.tokens(),
		History: history.Limits{Age: 1000 * time.Hour, Size: 1 << 20},
		Events:  events.New("test"), EventTTL: time.Hour, Metrics: metrics.New(w.store), Logger: logger, Clock: func() time.Time { return w.clock() },
	})
	if err := w.control.Recover(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- w.control.Run(ctx) }()
	w.stop = func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
		workers.Close()
		volumes.Close()
		if err := w.store.Check(); err != nil {
			w.t.Error(err)
		}
		if err := w.store.Close(); err != nil {
			w.t.Error(err)
		}
	}
}

// tokens returns what issues and verifies tokens, as the API server has it.
func (w *world) tokens() *tokens.Tokens {
	w.t.Helper()
	issuer, err := tokens.New(w.key, w.store)
	if err != nil {
		w.t.Fatal(err)
	}
	return issuer
}

// security returns the policy of a daemon without settings for it.
func (w *world) security() *podsecurity.Policy {
	w.t.Helper()
	policy, err := podsecurity.New(podsecurity.Configuration{})
	if err != nil {
		w.t.Fatal(err)
	}
	return policy
}

// hostLabels are those of the node.
var hostLabels = host.Host{Name: "test"}.Labels()

// noLogs keeps no logs.
type noLogs struct{}

func (noLogs) PodGone(*corev1.Pod) {}
func (noLogs) JobGone(types.UID)   {}

func (w *world) end() {
	w.stop()
	w.runtime.Close()
}

func (w *world) write(fn func(*store.Tx) error) {
	w.t.Helper()
	if err := w.store.Update(w.t.Context(), fn); err != nil {
		w.t.Fatal(err)
	}
}

// create does what the API does with a new Job.
func (w *world) create(j *batchv1.Job) {
	w.t.Helper()
	j.Namespace, j.UID, j.CreationTimestamp = "default", uuid.NewUUID(), metav1.Now()
	if j.Spec.Template.Spec.Containers == nil {
		j.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "busybox"}}
	}
	if j.Spec.Template.Spec.RestartPolicy == "" {
		j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	}
	batch.SetJobDefaults(j)
	batch.PrepareJob(j)
	w.put(objects.Key(objects.Jobs, j), j)
}

func (w *world) put(key string, obj objects.Object) {
	w.t.Helper()
	w.write(func(tx *store.Tx) error {
		value, err := scheme.Encode(obj)
		var owners []string
		for _, o := range obj.GetOwnerReferences() {
			owners = append(owners, string(o.UID))
		}
		if err != nil {
			return err
		}
		o := store.Object{Key: key, UID: string(obj.GetUID()), Owners: owners, Value: value}
		_, err = storage.Put(tx, &o)
		return err
	})
}

// job returns a Job as it is stored once everything that is due has happened; nil if it is gone.
func (w *world) job(name string) *batchv1.Job {
	w.t.Helper()
	synctest.Wait()
	var j *batchv1.Job
	_ = w.store.View(func(s *store.Snapshot) error {
		if o, ok := s.Get(store.Key(objects.Jobs, "default", name)); ok {
			j = &batchv1.Job{}
			return objects.Decode(o, j)
		}
		return nil
	})
	return j
}

func (w *world) pods() (all []*corev1.Pod) {
	w.t.Helper()
	synctest.Wait()
	_ = w.store.View(func(s *store.Snapshot) error {
		return objects.Each(s, objects.Pods, func(_ string, p *corev1.Pod) error {
			all = append(all, p)
			return nil
		})
	})
	slices.SortFunc(all, func(a, b *corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return all
}

func simulate(name, duration, codes string) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}}
	j.Spec.Template.Annotations = map[string]string{simulated.Duration: duration, simulated.ExitCode: codes}
	return j
}

func TestAJobRunsToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		j := simulate("j", "3s", "0")
		j.Spec.Completions, j.Spec.Parallelism = ptr.To[int32](5), ptr.To[int32](2)
		j.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
		w.create(j)
		began := time.Now()
		time.Sleep(10 * time.Second)
		got := w.job("j")
		if !objects.Finished(got) || got.Status.Succeeded != 5 || got.Status.CompletedIndexes != "0-4" {
			t.Fatalf("after 10s: %+v", got.Status)
		}
		if end := got.Status.CompletionTime.Sub(began); end < 8*time.Second || end > 9*time.Second {
			t.Errorf("complete after %v, want the 9 s that three rounds of 3 s take", end)
		}
		for _, p := range w.pods() {
			if len(p.Finalizers) > 0 || !pod.Done(p) {
				t.Errorf("pod %s: finalizers %v, phase %s", p.Name, p.Finalizers, p.Status.Phase)
			}
		}
		if n := len(w.control.jobs.known) + len(w.control.pods.known); n > 0 {
			t.Errorf("%d records are kept of a finished Job", n)
		}
	})
}

func TestWhatPeopleOnlySeeIsStoredWithWhatFollows(t *testing.T) {
	for name, c := range map[string]struct {
		duration string
		seen     []corev1.PodPhase // of the pod, one after the other
	}{
		"a pod that ends within a moment is never stored as running": {"5ms", []corev1.PodPhase{corev1.PodPending, corev1.PodSucceeded}},
		"one that goes on is, though nothing else happens":           {"1h", []corev1.PodPhase{corev1.PodPending, corev1.PodRunning}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.end()
				begin := w.store.Version()
				w.create(simulate("j", c.duration, "0"))
				time.Sleep(2 * loop.BatchDelay)
				synctest.Wait()
				var seen []corev1.PodPhase
				if err := w.store.View(func(s *store.Snapshot) error {
					return s.Changes(begin, func(change store.Change) bool {
						if objects.ResourceOf(change.Object.Key) == objects.Pods {
							p := &corev1.Pod{}
							if err := objects.Decode(change.Object, p); err != nil {
								t.Error(err)
							}
							seen = append(seen, p.Status.Phase)
						}
						return true
					})
				}); err != nil {
					t.Fatal(err)
				}
				if got := slices.Compact(seen); !slices.Equal(got, c.seen) {
					t.Errorf("stored as %v, want %v", got, c.seen)
				}
			})
		})
	}
}

func TestBackoffIsToTheSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		j := simulate("j", "1s", "1")
		j.Spec.BackoffLimit = ptr.To[int32](3)
		w.create(j)
		began := time.Now()
		time.Sleep(5 * time.Minute)
		got := w.job("j")
		if !objects.Finished(got) || got.Status.Failed != 4 {
			t.Fatalf("%+v", got.Status)
		}
		var at []string
		for _, p := range w.pods() {
			at = append(at, p.CreationTimestamp.Sub(began.Truncate(time.Second)).String())
		}
		if want := []string{"0s", "11s", "32s", "1m13s"}; !slices.Equal(at, want) {
			t.Errorf("pods were created at %v, want %v", at, want)
		}
	})
}

func TestNothingIsCountedTwiceAcrossRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		j := simulate("j", "3s", "1:1,4:1,7:1")
		j.Spec.Completions, j.Spec.Parallelism = ptr.To[int32](10), ptr.To[int32](3)
		j.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
		j.Spec.BackoffLimitPerIndex = ptr.To[int32](0)
		w.create(j)
		for range 20 {
			time.Sleep(700 * time.Millisecond)
			w.stop()
			time.Sleep(300 * time.Millisecond)
			w.start()
		}
		got := w.job("j")
		if !objects.Finished(got) || got.Status.Succeeded != 7 || got.Status.Failed != 3 || *got.Status.FailedIndexes != "1,4,7" {
			t.Fatalf("%+v", got.Status)
		}
		if n := len(w.pods()); n != 10 {
			t.Errorf("%d pods, want 10", n)
		}
	})
}

func TestDeletionTakesWhatItShould(t *testing.T) {
	for policy, want := range map[metav1.DeletionPropagation]int{
		metav1.DeletePropagationBackground: 0,
		metav1.DeletePropagationForeground: 0,
		metav1.DeletePropagationOrphan:     2,
	} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.end()
				j := simulate("j", "1h", "0")
				j.Spec.Completions, j.Spec.Parallelism = ptr.To[int32](2), ptr.To[int32](2)
				w.create(j)
				if n := len(w.pods()); n != 2 {
					t.Fatalf("%d pods run, want 2", n)
				}
				got := w.job("j")
				if storage.SetPropagation(got, policy); policy == metav1.DeletePropagationBackground {
					w.write(func(tx *store.Tx) error { tx.Delete(objects.Key(objects.Jobs, got)); return nil })
				} else {
					storage.MarkDeleted(got, time.Now(), 0)
					w.put(objects.Key(objects.Jobs, got), got)
				}
				time.Sleep(time.Minute)
				if got := w.job("j"); got != nil {
					t.Errorf("the Job is still there: %+v", got.ObjectMeta)
				}
				left := w.pods()
				if len(left) != want {
					t.Errorf("%d pods are left, want %d", len(left), want)
				}
				for _, p := range left {
					if p.Status.Phase != corev1.PodRunning || len(p.OwnerReferences)+len(p.Finalizers) > 0 {
						t.Errorf("orphan %s: %s, owners %v, finalizers %v", p.Name, p.Status.Phase, p.OwnerReferences, p.Finalizers)
					}
				}
			})
		})
	}
}

func TestManualSelectorAdoptsOrphans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		old := simulate("old", "1h", "0")
		w.create(old)
		orphaned := w.job("old")
		storage.SetPropagation(orphaned, metav1.DeletePropagationOrphan)
		storage.MarkDeleted(orphaned, time.Now(), 0)
		w.put(objects.Key(objects.Jobs, orphaned), orphaned)
		synctest.Wait()

		j := simulate("new", "1h", "0")
		j.Spec.ManualSelector = ptr.To(true)
		j.Spec.Selector = old.Spec.Selector
		j.Spec.Template.Labels = old.Spec.Template.Labels
		w.create(j)
		pods := w.pods()
		if len(pods) != 1 || !metav1.IsControlledBy(pods[0], w.job("new")) {
			t.Fatalf("%d pods, want the one of the old Job, adopted", len(pods))
		}
		if got := w.job("new"); got.Status.Active != 1 {
			t.Errorf("active %d, want 1", got.Status.Active)
		}
	})
}

func TestTTLRemovesAFinishedJobAlsoAfterDowntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		for name, ttl := range map[string]int32{"soon": 5, "later": 100, "at-once": 0} {
			j := simulate(name, "1s", "0")
			j.Spec.TTLSecondsAfterFinished = &ttl
			w.create(j)
		}
		time.Sleep(3 * time.Second)
		if w.job("at-once") != nil || w.job("soon") == nil {
			t.Error("after 3s: want at-once gone and soon there")
		}
		w.stop()
		time.Sleep(30 * time.Second)
		w.start()
		if w.job("soon") != nil || w.job("later") == nil {
			t.Error("after the downtime: want soon gone and later there")
		}
		if n := len(w.pods()); n != 1 {
			t.Errorf("%d pods are left, want that of later", n)
		}
	})
}

func TestANamespaceGoesWithWhatIsInIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		w.create(simulate("running", "1h", "0"))
		w.create(simulate("done", "0s", "0"))
		held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "held", Namespace: "default", Finalizers: []string{"example.com/hold"}}}
		heldKey := store.Key("configmaps", "default", "held")
		w.put(heldKey, held)
		for i := range loop.Budget/2 + 1 { // more than one pass handles
			w.put(store.Key("secrets", "default", fmt.Sprint(i)), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i), Namespace: "default"}})
		}
		synctest.Wait()
		ns := &corev1.Namespace{}
		ns.Name = "default"
		ns.Spec.Finalizers = []corev1.FinalizerName{corev1.FinalizerKubernetes}
		storage.MarkDeleted(ns, time.Now(), 0)
		w.put(store.Key(objects.Namespaces, "", "default"), ns)
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := w.store.View(func(s *store.Snapshot) error {
			if o, ok := s.Get(heldKey); !ok || objects.Decode(o, held) != nil || held.DeletionTimestamp == nil || s.Count(objects.Namespaces+"/") != 1 {
				return fmt.Errorf("it does not wait for what is held: %v %+v", ok, held)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		w.write(func(tx *store.Tx) error { tx.Delete(heldKey); return nil })
		synctest.Wait()
		if err := w.store.View(func(s *store.Snapshot) error {
			resources := []string{objects.Namespaces, objects.Memories}
			for resource, k := range objects.Served() {
				if k.Namespaced {
					resources = append(resources, resource)
				}
			}
			for _, resource := range resources {
				if n := s.Count(resource + "/"); n > 0 {
					return fmt.Errorf("%d %s are left", n, resource)
				}
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
}

func TestAManyPodsJobOutlivesTheBudgetOfAPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		const n = loop.Budget + 500
		w.control.config.MaxPods = 2 * n
		w.control.admission.capacity.MaxPods = 2 * n
		j := simulate("j", "1s", "0")
		j.Spec.Completions, j.Spec.Parallelism = ptr.To[int32](n), ptr.To[int32](n)
		j.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
		w.create(j)
		time.Sleep(time.Minute)
		if got := w.job("j"); !objects.Finished(got) || got.Status.Succeeded != n {
			t.Fatalf("%+v", got.Status)
		}
		w.write(func(tx *store.Tx) error { tx.Delete(store.Key(objects.Jobs, "default", "j")); return nil })
		if n := len(w.pods()); n > 0 {
			t.Errorf("%d pods are left", n)
		}
	})
}
