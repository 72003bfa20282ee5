package e2e

import (
	"slices"
	"sync"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/jobd/jobd/testdata/oracle"
)

// recorder follows all Jobs and pods.
type recorder struct {
	d     *daemon
	lives map[string]*life
}

func (r *recorder) follow(t *testing.T) {
	jobs, err := r.d.BatchV1().Jobs("").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pods, err := r.d.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var following sync.WaitGroup
	each := func(w watch.Interface, f func(*life, watch.Event)) {
		following.Go(func() {
			for e := range w.ResultChan() {
				if o, ok := e.Object.(metav1.Object); ok && r.lives[o.GetNamespace()] != nil {
					l := r.lives[o.GetNamespace()]
					l.mu.Lock()
					f(l, e)
					l.mu.Unlock()
				}
			}
		})
	}
	each(jobs, func(l *life, e watch.Event) {
		j := e.Object.(*batchv1.Job)
		l.states = append(l.states, oracle.Revision{
			Event: string(e.Type), Generation: j.Generation, Finalizers: j.Finalizers, DeletionTimestamp: j.DeletionTimestamp, Status: j.Status,
		})
	})
	each(pods, func(l *life, e watch.Event) {
		p := e.Object.(*corev1.Pod)
		i := slices.IndexFunc(l.pods, func(q *corev1.Pod) bool { return q.UID == p.UID })
		if i < 0 {
			i, l.pods = len(l.pods), append(l.pods, nil)
		}
		l.pods[i] = p
		l.gone[p.UID] = e.Type == watch.Deleted
		l.open()
	})
	t.Cleanup(func() {
		jobs.Stop()
		pods.Stop()
		following.Wait()
	})
}
