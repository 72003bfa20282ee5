package clusters

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestOf(t *testing.T) {
	for by, want := range map[string]struct{ of, overflows string }{
		"": {}, "clusters.jobd.dev/prod": {of: "prod"}, "clusters.jobd.dev/": {}, "kueue.x-k8s.io/multikueue": {}, batchv1.JobControllerName: {},
		"prod": {}, "jobd.dev/overflow.prod": {overflows: "prod"}, "jobd.dev/overflow.": {}, "jobd.dev/other": {},
	} {
		j := &batchv1.Job{}
		if by != "" {
			j.Spec.ManagedBy = ptr.To(by)
		}
		if of, overflows := Of(j), OverflowTo(j); of != want.of || overflows != want.overflows {
			t.Errorf("%q: of %q, overflows to %q; want %+v", by, of, overflows, want)
		}
		j.Annotations = map[string]string{OverflowedAnnotation: "2026-11-30T12:00:00Z"}
		if got := Of(j); got != want.of+want.overflows {
			t.Errorf("%q, and it has overflowed: %q", by, got)
		}
	}
}

// Whoever looks at all Jobs asks this of each.
func TestOfAllocatesNothing(t *testing.T) {
	for _, by := range []string{batchv1.JobControllerName, Manager("prod"), OverflowManager("prod")} {
		j := &batchv1.Job{Spec: batchv1.JobSpec{ManagedBy: ptr.To(by)}}
		if n := testing.AllocsPerRun(100, func() { _, _, _ = Of(j), OverflowTo(j), ManagedHere(j) }); n > 0 {
			t.Errorf("%s: %v allocations", by, n)
		}
	}
}

func TestRecord(t *testing.T) {
	r := Record{Job: "j", UID: "u", Namespace: "n", Cluster: "c"}
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{UID: "j", Annotations: map[string]string{RecordAnnotation: r.Annotation()}}}
	if got := RecordOf(j); got == nil || *got != r {
		t.Errorf("got %+v", got)
	}
	for _, spoiled := range []string{"", "x", `{"uid": 3}`, Record{Job: "another", UID: "u"}.Annotation()} {
		j.Annotations[RecordAnnotation] = spoiled
		if got := RecordOf(j); got != nil {
			t.Errorf("%q: %+v", spoiled, got)
		}
	}
	if got := RecordOf(&batchv1.Job{}); got != nil {
		t.Errorf("of none: %+v", got)
	}
}

func TestServed(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		lease *coordinationv1.Lease
		want  bool
	}{
		"never":           {nil, false},
		"one of somebody": {&coordinationv1.Lease{}, false},
		"now":             {Lease("prod", now), true},
		"a while ago":     {Lease("prod", now.Add(-LeaseSeconds*time.Second+time.Second)), true},
		"no more":         {Lease("prod", now.Add(-LeaseSeconds*time.Second)), false},
	} {
		if got := Served(c.lease, now); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestShown(t *testing.T) {
	for _, c := range []struct {
		node, scheduler string
		want            bool
	}{
		{"prod", Scheduler("prod"), true}, {"", Scheduler("prod"), false}, {"prod", corev1.DefaultSchedulerName, false}, {"prod", "", false},
	} {
		if got := Shown(&corev1.Pod{Spec: corev1.PodSpec{NodeName: c.node, SchedulerName: c.scheduler}}); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
