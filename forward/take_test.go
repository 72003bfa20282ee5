package forward

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/jobd/jobd/api/clusters"
)

// Whoever may change a Job may write its record: that brings it into no namespace that its own is not mapped to.
func TestARecordChoosesNoNamespace(t *testing.T) {
	l := here(astray)
	f := cluster(l)
	f.Namespaces = map[string]string{"default": "team-a"}
	if err := f.hold(t.Context(), Seen{Local: l, Namespace: f.into(l.Namespace)}); err != nil {
		t.Fatal(err)
	}
	got, err := f.local.BatchV1().Jobs(l.Namespace).Get(t.Context(), l.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if r := clusters.RecordOf(got); r == nil || r.Namespace != "team-a" || r.Job != l.UID {
		t.Errorf("its record: %+v", r)
	}
}

// cluster is a Forwarder between two servers that there are only in the memory.
func cluster(local ...runtime.Object) *Forwarder {
	return &Forwarder{
		Options: Options{Cluster: "prod", Logger: slog.New(slog.DiscardHandler)}, origin: origin, now: func() time.Time { return now },
		local: fake.NewClientset(local...), remote: fake.NewClientset(),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[key]()),
	}
}

// A watch may be behind: what is known by then to have been made, or to be deleted, is not made again.
func TestAStaleJobIsNotMade(t *testing.T) {
	for name, is := range map[string]*batchv1.Job{
		"it was made": here(made, version("2")), "it is deleted": here(held, deleted, version("2")), "it is another one": here(held, uid("other")),
		"it is gone": nil,
	} {
		var local []runtime.Object
		if is != nil {
			local = append(local, is)
		}
		if err := cluster(local...).unchanged(t.Context(), here(held)); !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := cluster(here(held)).unchanged(t.Context(), here(held)); err != nil {
		t.Error(err)
	}
}

// reaching lets a Forwarder reach a cluster; empty: it may not know which one.
func (f *Forwarder) reaching(id types.UID, objects ...runtime.Object) *Forwarder {
	remote := fake.NewClientset(append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: id}})...)
	if f.remote = remote; id == "" {
		remote.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(corev1.Resource("namespaces"), metav1.NamespaceSystem, nil)
		})
	}
	return f
}

// look has a Forwarder look at the Job here as it is, and returns what became of it.
func (f *Forwarder) look(t *testing.T) *batchv1.Job {
	t.Helper()
	get := func() *batchv1.Job {
		l, err := f.local.BatchV1().Jobs("default").Get(t.Context(), "j", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	if err := store.Add(get()); err != nil {
		t.Fatal(err)
	}
	f.localJobs = stores{metav1.NamespaceAll: store}
	if err := f.sync(t.Context(), key{ofJob, "default", "j"}); err != nil {
		t.Fatal(err)
	}
	return get()
}

// The answer to the request that makes a Job is lost, and the forwarder is then led to another cluster, or a Job that was made is not found
// there: it is neither made again, nor has it failed, nor is it let go.
func TestAnotherCluster(t *testing.T) {
	inCluster := elsewhere("cluster-1", origin.Machine)
	for name, l := range map[string]*batchv1.Job{
		"its answer was lost": here(held, inCluster), "it was made": here(made, inCluster), "it is deleted": here(made, inCluster, deleted),
	} {
		for _, id := range []types.UID{"cluster-2", ""} {
			f := cluster(l).reaching(id)
			got := f.look(t)
			if finished(got) || !says(got, clusters.Unreachable, clusters.ReasonOtherCluster) || !slices.Contains(got.Finalizers, clusters.Finalizer) {
				t.Errorf("%s, and %q is reached: %+v, %+v", name, id, got.Finalizers, got.Status)
			}
			if jobs, err := f.remote.BatchV1().Jobs("").List(t.Context(), metav1.ListOptions{}); err != nil || len(jobs.Items) > 0 {
				t.Errorf("%s, and %q is reached: it was made there", name, id)
			}
		}
	}
	if got := cluster(here(made, inCluster)).reaching("cluster-1").look(t); !finished(got) {
		t.Errorf("somebody has removed it in its cluster: %+v", got.Status)
	}
	if got := cluster(here(made)).reaching("").look(t); !finished(got) {
		t.Errorf("nobody has ever known the cluster: %+v", got.Status)
	}
}

// In which cluster a Job may be is known before it can be there, whatever becomes of the forwarder.
func TestTheClusterIsKnownBefore(t *testing.T) {
	for name, l := range map[string]*batchv1.Job{"it is new": here(), "it was taken while the cluster did not answer": here(held)} {
		f := cluster(l).reaching("cluster-1")
		if r := clusters.RecordOf(f.look(t)); r == nil || r.Cluster != "cluster-1" || r.Machine == "" && l.Annotations == nil {
			t.Errorf("%s: %+v", name, r)
		}
		if jobs, err := f.remote.BatchV1().Jobs("").List(t.Context(), metav1.ListOptions{}); err != nil || len(jobs.Items) > 0 {
			t.Errorf("%s, and was made before", name)
		}
	}
}

// A machine that has a copy of another one's state does nothing to its Jobs; when somebody says that they are its own now, it has them.
func TestACopyOfAMachine(t *testing.T) {
	for name, l := range map[string]*batchv1.Job{
		"it runs": here(made, elsewhere("cluster-1", "machine-2")), "it is deleted here": here(made, deleted, elsewhere("cluster-1", "machine-2")),
	} {
		r := there(here(), started(now))
		r.Labels[clusters.MachineLabel] = "machine-2"
		f := cluster(l).reaching("cluster-1", r)
		got := f.look(t)
		is, err := f.remote.BatchV1().Jobs("default").Get(t.Context(), "j", metav1.GetOptions{})
		if err != nil || !says(got, clusters.Unreachable, clusters.ReasonOtherMachine) || finished(got) || is.Labels[clusters.MachineLabel] != "machine-2" {
			t.Errorf("%s: %v, %+v", name, err, got.Status)
		}
		delete(got.Annotations, clusters.RecordAnnotation)
		if _, err := f.local.BatchV1().Jobs("default").Update(t.Context(), got, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if l.DeletionTimestamp != nil {
			continue
		}
		got = f.look(t)
		is, err = f.remote.BatchV1().Jobs("default").Get(t.Context(), "j", metav1.GetOptions{})
		if record := clusters.RecordOf(got); err != nil || record == nil || record.UID != "there" || record.Machine != origin.Machine ||
			is.Labels[clusters.MachineLabel] != origin.Machine {
			t.Errorf("%s, and is given to this one: %v, %+v, %+v", name, err, record, is.Labels)
		}
	}
}

// Whoever learns late that a Job has ended still has its TTL to look at it.
func TestAnEndThatComesLate(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration
		late  bool
	}{"at once": {late / 2, false}, "late": {24 * time.Hour, true}, "the clock of the cluster is ahead": {-time.Hour, false}} {
		l := here(made)
		r := there(l, ended)
		f := cluster(l)
		f.now = func() time.Time { return now.Add(c.after) }
		var got *batchv1.Job
		for range 2 {
			if err := f.bring(t.Context(), l, r); err != nil {
				t.Fatal(err)
			}
			got, _ = f.local.BatchV1().Jobs("default").Get(t.Context(), "j", metav1.GetOptions{})
			if l = got; c.late && !finished(got) {
				f.now = func() time.Time { return now.Add(c.after + time.Second) }
			}
		}
		want := now
		if c.late {
			want = now.Add(c.after)
		}
		if at := clusters.Ended(got, now); !finished(got) || !at.Equal(want) {
			t.Errorf("%s: it has ended at %v, want %v: %+v", name, at, want, got.Status)
		}
	}
}
