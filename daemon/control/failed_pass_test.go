package control

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
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

func TestWhatAFailedPassHasSeenIsStillFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		w.create(simulate("j", "1h", "0"))
		running := w.pods()[0]
		if held, _ := w.runtime.Containers(t.Context()); len(held) != 1 {
			t.Fatalf("%d containers, want 1", len(held))
		}

		// No event about a pod of such a name can be stored, so a pass that binds it fails.
		bad := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("x", 4080), Namespace: "default", UID: uuid.NewUUID()}}
		bad.Spec.Containers = []corev1.Container{{Name: "c", Image: "busybox"}}
		w.put(objects.Key(objects.Pods, bad), bad)
		w.write(func(tx *store.Tx) error { // by force, so that the object goes first
			tx.Delete(objects.Key(objects.Pods, running))
			return nil
		})
		time.Sleep(5 * time.Second)
		w.write(func(tx *store.Tx) error { tx.Delete(objects.Key(objects.Pods, bad)); return nil })
		time.Sleep(5 * time.Second)
		synctest.Wait()
		held, _ := w.runtime.Containers(t.Context())
		for _, c := range held {
			if c.PodUID == string(running.UID) {
				t.Errorf("container %s runs on, and its pod is gone", c.ID)
			}
		}
		if w.job("j").Status.Active != 1 || len(w.pods()) != 1 {
			t.Errorf("the Job has %+v and %d pods, want a new one", w.job("j").Status, len(w.pods()))
		}
	})
}

func TestAPassWritesNoMoreThanItsBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		const n = 4 * loop.Budget
		j := simulate("j", "1h", "0")
		completions := int32(n)
		j.Spec.Completions, j.Spec.Parallelism = &completions, &completions
		begin := w.store.Version()
		w.create(j)
		if got := len(w.pods()); got != n {
			t.Fatalf("%d pods, want %d", got, n)
		}
		// Between two passes the Job's status is written: between two writes of it there are no more pods than a pass
		// may make.
		statuses := store.Key(objects.Jobs, "default", "j")
		cursor := w.store.Cursor(begin, "")
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
		defer w.end()
		synctest.Wait()
		bare := func(name string) *corev1.Pod {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: uuid.NewUUID()}}
			p.Spec.Containers = []corev1.Container{{Name: "c", Image: "busybox"}}
			return p
		}
		waits := bare("waits")
		w.write(func(tx *store.Tx) error {
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
		for _, p := range w.pods() {
			if p.Spec.NodeName == "" {
				t.Errorf("%s still waits", p.Name)
			}
		}
	})
}

func TestAPassReadsNoMoreThanItsBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		const n = 5 * loop.Budget
		w.control.config.MaxPods, w.control.admission.capacity.MaxPods = n, n
		j := simulate("j", "1h", "0")
		completions := int32(n)
		j.Spec.Completions, j.Spec.Parallelism = &completions, &completions
		w.create(j)
		time.Sleep(loop.BatchDelay) // by then all that was seen of them is stored
		if got := len(w.pods()); got != n {
			t.Fatalf("%d pods, want %d", got, n)
		}
		w.stop()
		w.start() // it looks at all of them, and finds nothing to write
		version := w.store.Version()
		synctest.Wait()
		if w.store.Version() != version {
			t.Errorf("%d writes for pods that run on", w.store.Version()-version)
		}
		if passes := w.figures()["jobd_loop_passes_total{success}"]; passes < n/(2*loop.Budget) {
			t.Errorf("%v passes for %d pods: each held more than %d", passes, n, 2*loop.Budget)
		}
	})
}
