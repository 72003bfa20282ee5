package server

import (
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/batch"
)

func TestJobsAfterOthers(t *testing.T) {
	t.Parallel()
	ts := startServer(t)
	client, warned := ts.warned(t)
	jobs := client.BatchV1().Jobs("default")
	create := func(name, after string, suspend bool) error {
		t.Helper()
		warned.take()
		job := newJob(name)
		job.Spec.Suspend = &suspend
		if after != "" {
			job.Annotations = map[string]string{batch.AfterAnnotation: after}
		}
		_, err := jobs.Create(t.Context(), job, metav1.CreateOptions{})
		return err
	}
	refused := func(err error, words string) {
		t.Helper()
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "metadata.annotations[jobd.dev/after]") || !strings.Contains(err.Error(), words) {
			t.Errorf("%v, want %q", err, words)
		}
	}
	warns := func(err error, words string) {
		t.Helper()
		said := warned.take()
		if err != nil || !strings.Contains(said, words) || words == "" && said != "" {
			t.Errorf("%v, %q, want %q", err, said, words)
		}
	}
	refused(create("a", "b", false), "needs spec.suspend: true")
	refused(create("a", "b:soon", true), `"soon" is not known`)
	refused(create("a", "a", true), "a waits for a")
	warns(create("a", "b", true), `there is no Job "b" yet`)
	warns(create("b", "c:any", true), `there is no Job "c" yet: this one waits until there is, and for c to end`)
	refused(create("c", "x,a", true), "c waits for a waits for b waits for c")
	warns(create("c", "", false), "")
	warns(create("d", "a,b,c", true), "")

	// A circle by a change, and a Job that is held back no more.
	patch := func(name, text string) (*batchv1.Job, error) {
		return jobs.Patch(t.Context(), name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
	}
	_, err := patch("b", `{"metadata": {"annotations": {"jobd.dev/after": "d"}}}`)
	refused(err, "b waits for d waits for a waits for b")
	b, err := patch("b", `{"spec": {"suspend": false}}`)
	if err != nil || b.Annotations[batch.ResumedAnnotation] == "" {
		t.Errorf("%v %v", b, err)
	}
	_, err = patch("b", `{"metadata": {"annotations": {"jobd.dev/after": "d"}}}`)
	refused(err, "has no effect any more")
	warned.take()
	_, err = patch("b", `{"spec": {"suspend": true}}`)
	warns(err, "now it stays suspended")

	// Applying its manifest again is not meant so.
	if _, err = patch("b", `{"spec": {"suspend": false}}`); err != nil {
		t.Fatal(err)
	}
	warned.take()
	for _, manager := range []string{"kubectl-client-side-apply", "kubectl", "kubectl-edit"} {
		b, err = jobs.Patch(t.Context(), "b", types.MergePatchType, []byte(`{"spec": {"suspend": true}}`), metav1.PatchOptions{FieldManager: manager})
		words := "stays false"
		if manager == "kubectl-edit" {
			words = "now it stays suspended"
		}
		if warns(err, words); *b.Spec.Suspend != (manager == "kubectl-edit") {
			t.Errorf("%s: suspended: %v", manager, *b.Spec.Suspend)
		}
	}

	// What is asked of the store is bounded.
	var wide []string
	for i := range 32 {
		var needs []string
		for k := range 32 {
			needs = append(needs, fmt.Sprintf("never%d", 32*i+k))
		}
		if err := create(fmt.Sprint("wide", i), strings.Join(needs, ","), true); err != nil {
			t.Fatal(err)
		}
		wide = append(wide, fmt.Sprint("wide", i))
	}
	err = create("wider", strings.Join(wide, ","), true)
	refused(err, "more than 1000 Jobs")
}

func TestJobSetsAfterOthers(t *testing.T) {
	t.Parallel()
	ts := startServer(t)
	client, warned := ts.warned(t)
	post := func(name, after string, suspend bool) error {
		t.Helper()
		warned.take()
		return client.Discovery().RESTClient().Post().AbsPath("/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets").
			SetHeader("Content-Type", "application/json").Body(fmt.Appendf(nil, `{"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
			"metadata": {"name": %q, "annotations": {"jobd.dev/after": %q}}, "spec": {"suspend": %v, "replicatedJobs": [{"name": "w", "replicas": 2,
			"template": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}}}}]}}`, name, after, suspend)).
			Do(t.Context()).Error()
	}
	job := func(name, after string) error {
		t.Helper()
		warned.take()
		j := newJob(name)
		j.Spec.Suspend, j.Annotations = new(bool), map[string]string{batch.AfterAnnotation: after}
		*j.Spec.Suspend = true
		_, err := client.BatchV1().Jobs("default").Create(t.Context(), j, metav1.CreateOptions{})
		return err
	}
	refused := func(err error, words string) {
		t.Helper()
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "metadata.annotations[jobd.dev/after]") || !strings.Contains(err.Error(), words) {
			t.Errorf("%v, want %q", err, words)
		}
	}
	warns := func(err error, words string) {
		t.Helper()
		if said := warned.take(); err != nil || !strings.Contains(said, words) || words == "" && said != "" {
			t.Errorf("%v, %q, want %q", err, said, words)
		}
	}
	refused(post("a", "b", false), "needs spec.suspend: true, else the JobSet would start at once")
	refused(post("a", "pods/b", true), "nor jobsets/ and that of a JobSet")
	refused(post("a", "jobsets/a", true), "jobsets/a waits for jobsets/a")
	refused(post("a", "a-w-1", true), "jobsets/a waits for a-w-1 waits for jobsets/a")
	warns(post("a", "a-w-2,b", true), `there is no Job "b" yet: this one waits until there is, and for b to complete`)
	refused(job("b", "jobsets/a"), "b waits for jobsets/a waits for b")
	warns(job("c", "jobsets/x:any"), `there is no JobSet "x" yet: this one waits until there is, and for jobsets/x to end`)
	refused(post("x", "jobsets/y,c", true), "jobsets/x waits for c waits for jobsets/x")
	warns(job("d", "jobsets/a"), "")
}
