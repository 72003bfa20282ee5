package server

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

func TestWatch(t *testing.T) {
	ts := startServer(t)
	jobs := ts.client(t).BatchV1().Jobs("default")
	w, err := jobs.Watch(t.Context(), metav1.ListOptions{LabelSelector: "a=b"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	next := func(want watch.EventType) *batchv1.Job {
		t.Helper()
		select {
		case e := <-w.ResultChan():
			if e.Type != want {
				t.Fatalf("%s, not %s: %v", e.Type, want, e.Object)
			}
			return e.Object.(*batchv1.Job)
		case <-time.After(time.Minute):
			t.Fatalf("no %s", want)
			return nil
		}
	}
	job := newJob("a")
	job.Labels = map[string]string{"a": "b"}
	made, err := jobs.Create(t.Context(), job, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	next(watch.Added)
	made.Labels = nil
	if made, err = jobs.Update(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	next(watch.Deleted) // it is not selected any more
	made.Labels = map[string]string{"a": "b"}
	if _, err := jobs.Update(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	next(watch.Added)
	if err := jobs.Delete(t.Context(), "a", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}); err != nil {
		t.Fatal(err)
	}
	gone := next(watch.Deleted)
	if gone.ResourceVersion == made.ResourceVersion {
		t.Error("a deletion has a version of its own")
	}
}

func TestWatchFromAVersionThatIsGone(t *testing.T) {
	ts := startServer(t, func(c *Config) { c.RequestTimeout = time.Minute })
	jobs := ts.client(t).BatchV1().Jobs("default")
	made := mustMake(t, jobs, newJob("a"))
	// More than the store keeps of superseded versions.
	for i := range 40 {
		big := strings.Repeat(fmt.Sprint(i%10), 100_000)
		if _, err := jobs.Patch(
			t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"annotations":{"x":"`+big+`"}}}`), metav1.PatchOptions{},
		); err != nil {
			t.Fatal(err)
		}
	}
	w, err := jobs.Watch(t.Context(), metav1.ListOptions{ResourceVersion: made.ResourceVersion})
	if err == nil {
		e := <-w.ResultChan()
		w.Stop()
		err = apierrors.FromObject(e.Object)
	}
	if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		t.Errorf("not 410: %v", err)
	}
}

// An informer is what most clients are built on: a list in the form of a watch, then the watch.
func TestInformer(t *testing.T) {
	ts := startServer(t)
	c := ts.client(t)
	jobs := c.BatchV1().Jobs("default")
	for i := range 3 {
		if _, err := jobs.Create(t.Context(), newJob(fmt.Sprint("j", i)), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	informer := cache.NewSharedInformer(cache.NewListWatchFromClient(c.BatchV1().RESTClient(), "jobs", "default", fields.Everything()), &batchv1.Job{}, 0)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		t.Fatal("not synchronized")
	}
	if n := len(informer.GetStore().List()); n != 3 {
		t.Errorf("%d Jobs, not 3", n)
	}
}

func TestWatchesEndWhenTheServerStops(t *testing.T) {
	ts := startServer(t)
	w, err := ts.client(t).BatchV1().Jobs("default").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ts.stop()
	select {
	case <-w.ResultChan():
	case <-time.After(time.Minute):
		t.Error("the watch goes on")
	}
}
