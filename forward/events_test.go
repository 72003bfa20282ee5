package forward

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// An event that comes before that which it is about is copied once that is known, whatever the clock of the cluster shows.
func TestEventsThatAreAhead(t *testing.T) {
	for _, ahead := range []time.Duration{0, time.Hour, 2 * time.Second, -2 * time.Second, -time.Hour} {
		for _, known := range []time.Duration{0, 500 * time.Millisecond, 3 * time.Second, time.Minute} {
			t.Run(fmt.Sprintf("the clock there is ahead by %v, and the Job is known after %v", ahead, known), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store, ctx := cache.NewStore(cache.MetaNamespaceKeyFunc), t.Context()
					f := cluster(here(made))
					defer f.queue.ShutDown()
					f.now, f.events, f.postponed = time.Now, make(chan arrival, 10), make(chan struct{}, 10)
					f.localJobs = stores{metav1.NamespaceAll: store}
					keep := func(j *batchv1.Job) {
						if err := store.Add(j); err != nil {
							t.Error(err)
						}
					}
					keep(here(held))
					go f.copyEvents(ctx)
					at := metav1.NewTime(time.Now().Add(ahead))
					for _, on := range []types.UID{"there", "its predecessor"} {
						if err := (eventSink{f.events, f.now}).Add(&corev1.Event{
							ObjectMeta:     metav1.ObjectMeta{Namespace: "default", Name: "e", UID: "e-" + on},
							InvolvedObject: corev1.ObjectReference{Kind: "Job", Namespace: "default", Name: "j", UID: on},
							Reason:         "SuccessfulCreate", FirstTimestamp: at, LastTimestamp: at,
						}); err != nil {
							t.Fatal(err)
						}
					}
					time.Sleep(known)
					keep(here(made))
					time.Sleep(10 * time.Second)
					all, err := f.local.CoreV1().Events("default").List(ctx, metav1.ListOptions{})
					if err != nil || len(all.Items) != 1 || all.Items[0].InvolvedObject.UID != "here" {
						t.Errorf("%v: %+v", err, all.Items)
					}
				})
			})
		}
	}
}

// Of what others do in the cluster nothing waits: there may be much of it.
func TestEventsOfOthers(t *testing.T) {
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	if err := store.Add(here(held)); err != nil {
		t.Fatal(err)
	}
	f := cluster(here(held))
	f.localJobs = stores{metav1.NamespaceAll: store}
	for _, c := range []struct {
		kind, namespace, name string
		waits                 bool
	}{
		{"Job", "default", "j", true}, {"Job", "default", "k", false}, {"Job", "other", "j", false}, {"Node", "", "j", false},
		{"Pod", "default", "j-abcde", true}, {"Pod", "default", "j-0-abcde", true}, {"Pod", "default", "j-0-1-abcde", false},
		{"Pod", "default", "k-abcde", false}, {"Pod", "default", "j", false}, {"Pod", "other", "j-abcde", false},
	} {
		about, err := f.subject(context.Background(), &corev1.Event{
			InvolvedObject: corev1.ObjectReference{Kind: c.kind, Namespace: c.namespace, Name: c.name, UID: "u"},
		})
		if about != nil || (err != nil) != c.waits {
			t.Errorf("%+v: %v, %v", c, about, err)
		}
	}
}
