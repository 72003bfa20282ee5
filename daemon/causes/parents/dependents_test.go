package parents

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/daemon/causes"
	"github.com/jobd/jobd/daemon/dependents"
)

// TestWhyADeletionWaitsForDependents asks a CronJob, a JobSet, a Job and a pod that are deleted in the foreground.
func TestWhyADeletionWaitsForDependents(t *testing.T) {
	deleted := metav1.NewTime(time.Date(2026, 6, 1, 11, 0, 0, 0, time.UTC))
	leaving := metav1.ObjectMeta{Namespace: "n", Name: "o", UID: "o", DeletionTimestamp: &deleted, Finalizers: []string{metav1.FinalizerDeleteDependents}}
	job := func(name string, change func(*batchv1.Job)) dependents.Dependent {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}}
		change(j)
		return dependents.Dependent{Object: j, Kind: "Job"}
	}
	going := func(finalizers ...string) func(*batchv1.Job) {
		return func(j *batchv1.Job) { j.DeletionTimestamp, j.Finalizers = &deleted, finalizers }
	}
	stranger := job("shared", func(*batchv1.Job) {})
	stranger.Stranger = "Workflow w (argoproj.io/v1alpha1)"
	claim := dependents.Dependent{
		Kind: "PersistentVolumeClaim", Object: &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "data"}},
	}
	type some []dependents.Dependent
	for name, c := range map[string]struct {
		some   some
		others int
		reason string
		words  []string
		absent string
	}{
		"for one": {some{job("a", going())}, 0, "waits for jobs/a to go", []string{"jobs/a: is being deleted.", "$ jobctl why jobs/a -n n"}, ""},
		"whose finalizers hold it": {some{job("a", going("example.com/hold"))}, 0, "waits for jobs/a to go",
			[]string{"jobs/a: was deleted, and its finalizers hold it: example.com/hold."}, "jobs/a: is being deleted"},
		"whose finalizers go by themselves": {some{job("a", going(metav1.FinalizerDeleteDependents))}, 0, "waits for jobs/a to go",
			[]string{"jobs/a: is being deleted."}, "hold it"},
		"that is not deleted yet": {some{job("a", func(*batchv1.Job) {})}, 0, "waits for jobs/a to go", []string{"jobs/a: is about to be deleted."}, ""},
		"that a stranger owns too": {some{stranger}, 0, "waits for jobs/shared to go",
			[]string{"is not deleted, since Workflow w (argoproj.io/v1alpha1) owns it too"}, ""},
		"of another kind": {some{claim}, 0, "waits for PersistentVolumeClaim data to go", []string{"PersistentVolumeClaim data: is about"}, "$"},
		"for several": {
			some{job("a", going()), job("b", going())}, 0, "waits for jobs/a and 1 more to go",
			[]string{"jobs/a: is", "jobs/b: is"}, "There are",
		},
		"some may not be seen": {some{job("a", going())}, 2, "waits for jobs/a and 2 more to go", []string{"jobs/a: is", "There are 2 more."}, ""},
		"none may be seen":     {nil, 3, "waits for what belongs to it to go", []string{"once the 3 that belong to it have gone"}, ""},
		"for none any more":    {nil, 0, "", []string{"deleted"}, "in the foreground"},
	} {
		t.Run(name, func(t *testing.T) {
			w := causes.World{Now: deleted.Time, Dependents: dependents.Dependents{Others: c.others}}
			for _, d := range c.some {
				w.Dependents.Add(d)
			}
			p := &corev1.Pod{ObjectMeta: leaving}
			p.Status.Phase = corev1.PodSucceeded
			for _, said := range []*why.Explanation{
				CronJob(w, &batchv1.CronJob{ObjectMeta: leaving, Spec: batchv1.CronJobSpec{Schedule: "0 0 * * *"}}, nil, nil),
				JobSet(w, &jobsetv1.JobSet{ObjectMeta: leaving}, nil, nil),
				causes.Job(w, &batchv1.Job{ObjectMeta: leaving}, nil), causes.Pod(w, p, nil),
			} {
				var text strings.Builder
				if err := why.Print(&text, said); err != nil {
					t.Fatal(err)
				}
				all := strings.Join(strings.Fields(text.String()), " ")
				for _, words := range c.words {
					if !strings.Contains(all, words) {
						t.Errorf("a %s says %q, not %q", said.Object.Kind, text.String(), words)
					}
				}
				if c.absent != "" && strings.Contains(all, c.absent) || c.reason != "" && said.Reason != c.reason {
					t.Errorf("a %s says %q, for the reason %q", said.Object.Kind, text.String(), said.Reason)
				}
			}
		})
	}
}
