package control_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

func TestWhatAFailedPassHasSeenIsStillFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		w.Create(controltest.Simulate("j", "1h", "0"))
		running := w.Pods()[0]
		if held, _ := w.Runtime.Containers(t.Context()); len(held) != 1 {
			t.Fatalf("%d containers, want 1", len(held))
		}

		// No event about a pod of such a name can be stored, so a pass that binds it fails.
		bad := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("x", 4080), Namespace: "default", UID: uuid.NewUUID()}}
		bad.Spec.Containers = []corev1.Container{{Name: "c", Image: "busybox"}}
		w.Put(objects.Key(objects.Pods, bad), bad)
		w.Write(func(tx *store.Tx) error { // by force, so that the object goes first
			tx.Delete(objects.Key(objects.Pods, running))
			return nil
		})
		time.Sleep(5 * time.Second)
		w.Write(func(tx *store.Tx) error { tx.Delete(objects.Key(objects.Pods, bad)); return nil })
		time.Sleep(5 * time.Second)
		synctest.Wait()
		held, _ := w.Runtime.Containers(t.Context())
		for _, c := range held {
			if c.PodUID == string(running.UID) {
				t.Errorf("container %s runs on, and its pod is gone", c.ID)
			}
		}
		if w.Job("j").Status.Active != 1 || len(w.Pods()) != 1 {
			t.Errorf("the Job has %+v and %d pods, want a new one", w.Job("j").Status, len(w.Pods()))
		}
	})
}

func TestAPassWritesNoMoreThanItsBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		const n = 4 * loop.Budget
		j := controltest.Simulate("j", "1h", "0")
		completions := int32(n)
		j.Spec.Completions, j.Spec.Parallelism = &completions, &completions
		begin := w.Store.Version()
		w.Create(j)
		if got := len(w.Pods()); got != n {
			t.Fatalf("%d pods, want %d", got, n)
		}
		// Between two passes the Job's status is written: between two writes of it there are no more pods than a pass
		// may make.
		statuses := store.Key(objects.Jobs, "default", "j")
		cursor := w.Store.Cursor(begin, "")
		made, since := 0, 0
		for made < n {
			changes, _, err := cursor.Next(t.Context(), 1000)
			if err != nil {
				t.Fatal(err)
			}

			for _, c := range changes {
				switch {
				case c.Object.Key == statuses:
					since = 0
				case strings.HasPrefix(c.Object.Key, objects.Pods+"/") && c.Previous == nil:
					made++
					since++
				}
				if since > loop.Budget+500 {
					t.Fatalf("%d pods were made in one pass", since)
				}
			}
		}
	})
}

func TestAPassThatEndsWithItsBudgetIsFollowedByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		synctest.Wait()
		bare := func(name string) *corev1.Pod {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: uuid.NewUUID()}}
			p.Spec.Containers = []corev1.Container{{Name: "c", Image: "busybox"}}
			return p
		}
		waits := bare("waits")
		w.Write(func(tx *store.Tx) error {
			put := func(p *corev1.Pod) {
				value, err := scheme.Encode(p)
				if err != nil {
					t.Error(err)
				}
				tx.Put(store.Object{Key: objects.Key(objects.Pods, p), UID: string(p.UID), Value: value})
			}
			put(waits)
			// Each is changed, written and deleted: the last of them uses up the budget, and nothing but a pod that
			// waits for the node is left.
			for i := range loop.Budget/3 + 1 {
				p := bare(fmt.Sprint(i))
				storage.MarkDeleted(p, time.Now(), 0)
				put(p)
			}
			return nil
		})
		time.Sleep(time.Second)
		for _, p := range w.Pods() {
			if p.Spec.NodeName == "" {
				t.Errorf("%s still waits", p.Name)
			}
		}
	})
}

func TestAPassReadsNoMoreThanItsBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		const n = 5 * loop.Budget
		w.MaxPods = n
		w.Stop()
		w.Start()
		j := controltest.Simulate("j", "1h", "0")
		completions := int32(n)
		j.Spec.Completions, j.Spec.Parallelism = &completions, &completions
		w.Create(j)
		time.Sleep(loop.BatchDelay) // by then all that was seen of them is stored
		if got := len(w.Pods()); got != n {
			t.Fatalf("%d pods, want %d", got, n)
		}
		w.Stop()
		w.Start() // it looks at all of them, and finds nothing to write
		version := w.Store.Version()
		synctest.Wait()
		if w.Store.Version() != version {
			t.Errorf("%d writes for pods that run on", w.Store.Version()-version)
		}
		if passes := w.Figures()["jobd_loop_passes_total{success}"]; passes < n/(2*loop.Budget) {
			t.Errorf("%v passes for %d pods: each held more than %d", passes, n, 2*loop.Budget)
		}
	})
}
