package job

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
)

func TestBackoffDoublesUpToItsCap(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		annotations map[string]string
		settings    Settings
		want        []time.Duration
	}{
		"ten seconds to six minutes": {nil, Settings{}, []time.Duration{10 * s, 20 * s, 40 * s, 80 * s, 160 * s, 320 * s, 360 * s, 360 * s}},
		"as the daemon is set":       {nil, Settings{BackoffBase: s, BackoffCap: 3 * s}, []time.Duration{s, 2 * s, 3 * s, 3 * s}},
		"as the Job asks for": {
			map[string]string{batch.BackoffBaseAnnotation: "2s", batch.BackoffCapAnnotation: "5s"}, Settings{},
			[]time.Duration{2 * s, 4 * s, 5 * s},
		},
		"a base beyond the cap is cut":    {map[string]string{batch.BackoffBaseAnnotation: "1h"}, Settings{}, []time.Duration{360 * s, 360 * s}},
		"a tiny base is doubled for long": {map[string]string{batch.BackoffBaseAnnotation: "1ms"}, Settings{}, []time.Duration{s / 1000, s / 500, s / 250}},
	} {
		t.Run(name, func(t *testing.T) {
			job := newJob(nil)
			job.Annotations = c.annotations
			r := NewRecord(job, nil)
			for n, want := range c.want {
				if got := r.delay(n+1, c.settings.withDefaults()); got != want {
					t.Errorf("%v after %d failures, want %v", got, n+1, want)
				}
			}
		})
	}
}

func TestBackoff(t *testing.T) {
	start := someTime.Truncate(time.Second) // failures are dated in whole seconds
	at := func(w *world) time.Duration { return w.wake.Sub(start) }

	t.Run("counts from the end of the last failed pod", func(t *testing.T) {
		w := begin(nil)
		w.pass(1500 * time.Millisecond)
		w.end(w.names()[0], 1)
		w.pass(500 * time.Millisecond)
		if at(w) != 12*time.Second {
			t.Errorf("retry after %v", at(w))
		}
	})
	t.Run("is none of a pod whose index is none of the Job's", func(t *testing.T) {
		w := newWorld(someTime, newJob(indexed(1, 1)))
		w.orphan("a", corev1.PodFailed, func(p *corev1.Pod) {
			p.Annotations = map[string]string{batchv1.JobCompletionIndexAnnotation: "7"}
		})
		if w.settle(); len(w.created) != 1 || w.job.Status.Failed != 0 || tracked(w.pods["a"]) {
			t.Errorf("%d pods created, %s", len(w.created), describe(&w.job.Status))
		}
	})
}

// What is stored of very many failures is no more than what the longest delay needs.
func TestVeryManyFailures(t *testing.T) {
	w := begin(func(s *batchv1.JobSpec) { s.BackoffLimit = ptr.To[int32](1000) })
	for range 100 {
		w.end(w.names()[0], 1)
		w.settle()
		w.pass(6 * time.Minute)
		w.startAll()
	}
	if n := len(w.record.counted.Failures); n != remembered || w.job.Status.Failed != 100 {
		t.Errorf("%d are remembered of %d", n, w.job.Status.Failed)
	}
	w.record = w.rebuilt()
	failed := w.now
	w.end(w.names()[0], 1)
	w.settle()
	if want := failed.Truncate(time.Second).Add(6 * time.Minute); !w.wake.Equal(want) {
		t.Errorf("looks again at %s, want %s", w.wake, want)
	}
}
