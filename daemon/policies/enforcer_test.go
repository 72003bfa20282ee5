package policies

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/runtime/network"
	"github.com/jobd/jobd/store"
)

// recorder is a Network that remembers what it was told last.
type recorder struct {
	mu     sync.Mutex
	owned  map[string]netip.Addr
	fails  bool
	told   int
	last   *network.Policies
	change chan struct{}
}

func (r *recorder) SetPolicies(p *network.Policies) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fails {
		return errors.New("no nf_tables")
	}
	r.last, r.told = p, r.told+1
	select {
	case r.change <- struct{}{}:
	default:
	}
	return nil
}

func (r *recorder) Addresses() map[string]netip.Addr {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.owned)
}

func (r *recorder) Gateway() netip.Addr { return gateway }

// isolated reports whether the pod at an address is isolated by what the network was told last.
func (r *recorder) isolated(at netip.Addr) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last != nil && r.last.Pods[at].Ingress != ""
}

// await waits until the network was told something that fulfils a condition.
func (r *recorder) await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	late := time.After(time.Minute)
	for !condition() {
		select {
		case <-r.change:
		case <-late:
			t.Fatalf("in vain: %s", what)
		}
	}
}

type world struct {
	*testing.T
	store   *store.Store
	network *recorder
}

func newWorld(t *testing.T) *world {
	s, err := store.Open(filepath.Join(t.TempDir(), "db"), store.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return &world{t, s, &recorder{owned: map[string]netip.Addr{}, change: make(chan struct{}, 1)}}
}

func (w *world) open() *Enforcer { return Open(w.store, w.network, slog.New(slog.DiscardHandler)) }

func (w *world) run(e *Enforcer) {
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan struct{})
	go func() { defer close(done); e.Run(ctx) }()
	w.Cleanup(func() { cancel(); <-done })
}

func (w *world) write(resource, namespace, name string, obj runtime.Object) {
	w.Helper()
	if err := w.store.Update(w.Context(), func(tx *store.Tx) error {
		key := store.Key(resource, namespace, name)
		if obj == nil {
			tx.Delete(key)
			return nil
		}
		value, err := scheme.Encode(obj)
		if err != nil {
			return err
		}
		uid := ""
		if p, ok := obj.(*corev1.Pod); ok {
			uid = string(p.UID)
		}
		tx.Put(store.Object{Key: key, UID: uid, Value: value})
		return nil
	}); err != nil {
		w.Fatal(err)
	}
}

func (w *world) policy(text string) {
	w.Helper()
	p := parse(w, "ns: "+text)[0]
	w.write("networkpolicies."+networkingv1.GroupName, "ns", p.Name, p)
}

// pod stores a pod and gives it an address.
func (w *world) pod(name, app string, last byte) (*corev1.Pod, netip.Addr) {
	w.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Labels: map[string]string{"app": app}}}
	w.write("pods", "ns", name, p)
	at := netip.AddrFrom4([4]byte{10, 64, 0, last})
	w.network.mu.Lock()
	defer w.network.mu.Unlock()
	w.network.owned[name] = at
	return p, at
}

const isolateWeb = `{podSelector: {matchLabels: {app: web}}}`

// A policy that is stored when a pod is admitted isolates it when that returns, whoever follows the store.
func TestPodIsIsolatedOnceItIsAdmitted(t *testing.T) {
	w := newWorld(t)
	e := w.open()
	first, at := w.pod("first", "web", 2)
	if err := e.Admit(first, at); err != nil || w.network.isolated(at) {
		t.Fatalf("without a policy: %v, isolated %v", err, w.network.isolated(at))
	}
	if w.network.told != 1 {
		t.Errorf("the network was told %d times that there are no policies", w.network.told)
	}
	w.policy(isolateWeb)
	second, there := w.pod("second", "web", 3)
	if err := e.Admit(second, there); err != nil || !w.network.isolated(there) || !w.network.isolated(at) {
		t.Errorf("with a policy: %v, isolated %v and %v", err, w.network.isolated(there), w.network.isolated(at))
	}
	w.network.fails = true
	third, elsewhere := w.pod("third", "web", 4)
	if err := e.Admit(third, elsewhere); err == nil {
		t.Error("a pod is admitted that cannot be isolated")
	}
}

func TestRulesFollowTheStore(t *testing.T) {
	w := newWorld(t)
	pod, at := w.pod("pod", "web", 2)
	e := newEnforcer(w.store, w.network, slog.New(slog.DiscardHandler))
	e.linger = 0
	w.run(e)
	w.policy(isolateWeb)
	w.network.await(t, "a policy isolates", func() bool { return w.network.isolated(at) })
	pod = pod.DeepCopy()
	pod.Labels["app"] = "db"
	w.write("pods", "ns", "pod", pod)
	w.network.await(t, "the pod has other labels", func() bool { return !w.network.isolated(at) })
	w.policy(`{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: red}}}]}]}`)
	w.network.await(t, "the policy has another selector", func() bool { return w.network.isolated(at) })
	grouped := func() bool {
		w.network.mu.Lock()
		defer w.network.mu.Unlock()
		return len(w.network.last.Pods[at].Groups) == 1
	}
	if grouped() {
		t.Error("the namespace is selected")
	}
	w.write("namespaces", "", "ns", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Labels: map[string]string{"team": "red"}}})
	w.network.await(t, "the namespace has other labels", grouped)
	e.Forget("pod")
	w.network.await(t, "the pod is gone", func() bool { return !w.network.isolated(at) })
	w.write("networkpolicies."+networkingv1.GroupName, "ns", "p0", nil)
	w.network.await(t, "there are no policies", func() bool {
		w.network.mu.Lock()
		defer w.network.mu.Unlock()
		return w.network.last == nil
	})
}

// A pod may have got other labels after it was read and before it is admitted.
func TestPodIsRelabelledBeforeItIsAdmitted(t *testing.T) {
	w := newWorld(t)
	e := w.open()
	w.policy(isolateWeb)
	read, at := w.pod("pod", "db", 2)
	now := read.DeepCopy()
	now.Labels["app"] = "web"
	w.write("pods", "ns", "pod", now)
	if err := e.Admit(read, at); err != nil || !w.network.isolated(at) {
		t.Errorf("by its new labels: %v, isolated %v", err, w.network.isolated(at))
	}
	now.UID = "another of the same name"
	w.write("pods", "ns", "pod", now)
	if err := e.Admit(read, at); err != nil || w.network.isolated(at) {
		t.Errorf("by the labels of another pod: %v, isolated %v", err, w.network.isolated(at))
	}
}

// Changes of pods are followed at a distance, and those that are older than what a pod was admitted with come still.
func TestOldChangesOfAPodThatIsAdmitted(t *testing.T) {
	w := newWorld(t)
	e := w.open()
	w.policy(isolateWeb)
	cursor := w.store.Cursor(w.store.Version(), podPrefix)
	read, at := w.pod("pod", "db", 2)
	now := read.DeepCopy()
	now.Labels["app"] = "web"
	w.write("pods", "ns", "pod", now)
	if err := e.Admit(read, at); err != nil {
		t.Fatal(err)
	}
	changes, _, err := cursor.Next(t.Context(), 1)
	if err != nil || len(changes) != 1 {
		t.Fatal(changes, err)
	}
	e.take(changes)
	if !e.catchUp() || !w.network.isolated(at) {
		t.Error("the pod is treated by the labels that it had before it was admitted")
	}
}

// The rules of a pod that is gone stay for a while, unless another has its address.
func TestAddressIsUsedAgain(t *testing.T) {
	w := newWorld(t)
	e := w.open()
	w.policy(isolateWeb)
	first, at := w.pod("first", "web", 2)
	if err := e.Admit(first, at); err != nil {
		t.Fatal(err)
	}
	e.Forget("first")
	if other, there := w.pod("other", "db", 3); e.Admit(other, there) != nil || !w.network.isolated(at) {
		t.Error("the rules of a pod that is gone were removed while another started")
	}
	if second, _ := w.pod("second", "db", 2); e.Admit(second, at) != nil || w.network.isolated(at) {
		t.Error("a pod is isolated by the policies of the one that had its address")
	}
}

// A pod may be read after it was forgotten and before its address is free.
func TestPodThatIsReadWhileItEnds(t *testing.T) {
	w := newWorld(t)
	e := w.open()
	_, at := w.pod("first", "web", 2)
	e.Forget("first")
	w.policy(isolateWeb)
	if other, there := w.pod("other", "db", 3); e.Admit(other, there) != nil || !w.network.isolated(at) {
		t.Error("the pod is not isolated")
	}
	delete(w.network.owned, "first")
	if second, _ := w.pod("second", "db", 2); e.Admit(second, at) != nil || w.network.isolated(at) {
		t.Error("a pod is isolated by the policies of the one that had its address")
	}
}

// As after kill -9: pods that run are isolated before anything else happens.
func TestPodsOfAnEarlierRun(t *testing.T) {
	w := newWorld(t)
	_, at := w.pod("pod", "web", 2)
	w.policy(isolateWeb)
	w.open()
	if !w.network.isolated(at) {
		t.Error("the pod is not isolated")
	}
}
