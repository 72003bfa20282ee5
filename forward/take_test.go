package forward

import (
	"errors"
	"log/slog"
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

	"github.com/jobd/jobd/api/clusters"
)

// Whoever may change a Job may write its record: that brings it into no namespace that its own is not mapped to.
func TestARecordChoosesNoNamespace(t *testing.T) {
	l := here(astray)
	f := &Forwarder{Options: Options{Namespaces: map[string]string{"default": "team-a"}}, local: fake.NewClientset(l)}
	if err := f.hold(t.Context(), l); err != nil {
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

// A Job that is not found has failed only if it is certain that the cluster is the one in which it was made.
func TestWhoseJobHasFailed(t *testing.T) {
	inCluster := func(j *batchv1.Job) {
		record := clusters.Record{Job: j.UID, Namespace: "default", UID: "there", Cluster: "cluster-1"}
		j.Annotations[clusters.RecordAnnotation] = record.Annotation()
	}
	for name, c := range map[string]struct {
		cluster types.UID // empty: it may not be known
		fails   bool
	}{"its cluster": {"cluster-1", true}, "another one": {"cluster-2", false}, "nobody knows": {"", false}} {
		l := here(made, inCluster)
		f := cluster(l)
		remote := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: c.cluster}})
		if f.remote = remote; c.cluster == "" {
			remote.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewForbidden(corev1.Resource("namespaces"), metav1.NamespaceSystem, nil)
			})
		}
		err := f.fail(t.Context(), l)
		got, failed := f.local.BatchV1().Jobs("default").Get(t.Context(), "j", metav1.GetOptions{})
		if failed != nil || finished(got) != c.fails || is(got, clusters.Unreachable) == c.fails || errors.Is(err, errRefused) == c.fails {
			t.Errorf("%s: %v, %v: %+v", name, err, failed, got.Status.Conditions)
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
