package worker

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/simulated"
)

func TestRecover(t *testing.T) {
	// Each pod is stored in one state, and the runtime holds its containers in another.
	runs := func(obj *corev1.Pod) {
		pod.Apply(obj, &pod.Issued{}, []duty.Observation{{UID: obj.UID, What: duty.Started, Container: "c", Status: runtime.Status{StartedAt: epoch}}}, epoch)
	}
	deleted := func(obj *corev1.Pod) {
		at, grace := metav1.NewTime(time.Now().Add(30*time.Second).Truncate(time.Second)), int64(30)
		obj.DeletionTimestamp, obj.DeletionGracePeriodSeconds = &at, &grace
	}
	ended := func(obj *corev1.Pod) {
		runs(obj)
		pod.Apply(obj, &pod.Issued{}, []duty.Observation{{UID: obj.UID, What: duty.Exited, Container: "c"}}, epoch)
	}
	for rule, test := range map[string]struct {
		stored   []func(*corev1.Pod)
		held     string // how long the held container runs; empty: there is none
		rebooted bool
		want     string
		kept     int // containers after it
	}{
		"one that runs still runs":                             {stored: []func(*corev1.Pod){runs}, held: "1h", want: "[]", kept: 1},
		"one that has ended meanwhile has ended":               {stored: []func(*corev1.Pod){runs}, held: "0s", want: "[Exited c/0]", kept: 1},
		"one that was started and is not held is lost":         {stored: []func(*corev1.Pod){runs}, want: "[Lost c/0]"},
		"a start that is not on record is left to Launch":      {held: "1h", want: "[Held c/0]", kept: 1},
		"and so is an end that is not on record":               {held: "0s", want: "[Held c/0]", kept: 1},
		"but not when the pod is to end":                       {stored: []func(*corev1.Pod){deleted}, held: "1h", want: "[Started c/0]", kept: 1},
		"an end that is not on record, when the pod is to end": {stored: []func(*corev1.Pod){deleted}, held: "0s", want: "[Exited c/0]", kept: 1},
		"what was never started is launched":                   {want: "[]"},
		"a launch in doubt is lost after a reboot":             {rebooted: true, want: "[Lost c/0]"},
		"a pod that has ended is torn down by Next":            {stored: []func(*corev1.Pod){ended}, held: "0s", want: "[]", kept: 1},
	} {
		t.Run(rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t)
				defer h.close()
				obj := lasting(newPod(corev1.RestartPolicyNever, "c"), "1h")
				for _, change := range test.stored {
					change(obj)
				}
				if test.held != "" {
					obj := lasting(newPod(corev1.RestartPolicyNever, "c"), test.held)
					_, _ = h.Runtime.Start(t.Context(), runtime.Container{ID: "u.c.0", PodUID: "u", Name: "c", Spec: simulated.Spec(obj, "c")})
				}
				synctest.Wait()
				seen, err := h.workers.Recover(t.Context(), asStored(slices.Values([]*corev1.Pod{obj})), test.rebooted)
				if err != nil {
					t.Fatal(err)
				}
				if got := fmt.Sprint(seen); got != test.want {
					t.Errorf("got %s, want %s", got, test.want)
				}
				synctest.Wait()
				if held, _ := h.Containers(t.Context()); len(held) != test.kept {
					t.Errorf("holds %v", held)
				}
			})
		})
	}
}

func TestRecoverRemovesWhatIsLeftOfPodsThatAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var undone []types.UID
		h := newHost(t, func(_ *host, c *Config) {
			c.Steps = []Step{{
				Name:     "volumes",
				TearDown: func(_ context.Context, uid types.UID) error { undone = append(undone, uid); return nil },
				Held:     func(context.Context) ([]types.UID, error) { return []types.UID{"u", "left"}, nil },
			}}
			c.Parallel = 1
		})
		defer h.close()
		for _, uid := range []string{"gone", "u"} {
			_, _ = h.Runtime.Start(t.Context(), runtime.Container{ID: uid + ".c.0", PodUID: uid, Name: "c",
				Spec: simulated.Spec(lasting(newPod("", "c"), "1h"), "c")})
		}
		obj := lasting(newPod(corev1.RestartPolicyNever, "c"), "1h")
		if _, err := h.workers.Recover(t.Context(), asStored(slices.Values([]*corev1.Pod{obj})), false); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		slices.Sort(undone)
		if fmt.Sprint(undone) != "[gone left]" {
			t.Errorf("undone for %v", undone)
		}
		if held, _ := h.Containers(t.Context()); len(held) != 1 || held[0].PodUID != "u" {
			t.Errorf("holds %v", held)
		}
	})
}

// asStored returns pods as they are read from the store.
func asStored(pods iter.Seq[*corev1.Pod]) iter.Seq2[*corev1.Pod, error] {
	return func(yield func(*corev1.Pod, error) bool) {
		for p := range pods {
			if !yield(p, nil) {
				return
			}
		}
	}
}

func TestNothingIsRemovedWhenAPodCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		defer h.close()
		_, _ = h.Runtime.Start(t.Context(), runtime.Container{ID: "u.c.0", PodUID: "u", Name: "c",
			Spec: simulated.Spec(lasting(newPod("", "c"), "1h"), "c")})
		broken := errors.New("broken")
		pods := func(yield func(*corev1.Pod, error) bool) { yield(nil, broken) }
		if _, err := h.workers.Recover(t.Context(), pods, false); !errors.Is(err, broken) {
			t.Errorf("got the error %v", err)
		}
		synctest.Wait()
		if held, _ := h.Containers(t.Context()); len(held) != 1 {
			t.Errorf("holds %v", held)
		}
	})
}
