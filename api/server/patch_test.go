package server

import (
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applybatch "k8s.io/client-go/applyconfigurations/batch/v1"
	applycore "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/internal/fairshare"
)

func TestEveryTypeOfPatch(t *testing.T) {
	ts := startServer(t)
	jobs := ts.client(t).BatchV1().Jobs("default")
	for _, tc := range []struct {
		kind  types.PatchType
		patch string
	}{
		{types.StrategicMergePatchType, `{"spec":{"parallelism":3}}`},
		{types.MergePatchType, `{"spec":{"parallelism":3}}`},
		{types.JSONPatchType, `[{"op":"replace","path":"/spec/parallelism","value":3}]`},
		{types.ApplyPatchType, `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"a"},"spec":{"parallelism":3}}`},
	} {
		t.Run(string(tc.kind), func(t *testing.T) {
			if _, err := jobs.Create(t.Context(), newJob("a"), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = jobs.Delete(t.Context(), "a", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})
			}()
			got, err := jobs.Patch(t.Context(), "a", tc.kind, []byte(tc.patch), metav1.PatchOptions{FieldManager: "test", Force: force(tc.kind)})
			if err != nil {
				t.Fatal(err)
			}
			if *got.Spec.Parallelism != 3 || got.Generation != 2 {
				t.Errorf("parallelism %d, generation %d", *got.Spec.Parallelism, got.Generation)
			}
		})
	}
}

// TestCostlyPatchesTakeTurns: a strategic merge patch with very long lists waits for those of others, and nothing else does.
func TestCostlyPatchesTakeTurns(t *testing.T) {
	ts := startServer(t)
	jobs := ts.client(t).BatchV1().Jobs("default")
	patch := func(variables int) []byte {
		var all []string
		for i := range variables {
			all = append(all, fmt.Sprintf(`{"name":"V%d","value":"x"}`, i))
		}
		return []byte(`{"spec":{"suspend":true,"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"main","env":[` +
			strings.Join(all, ",") + `]}]}}}}`)
	}
	job := newJob("a")
	job.Spec.Suspend = ptr.To(true)
	for i := range 2000 {
		job.Spec.Template.Spec.Containers[0].Env = append(job.Spec.Template.Spec.Containers[0].Env, corev1.EnvVar{Name: fmt.Sprint("V", i), Value: "x"})
	}
	job.Spec.Template.Spec.Containers[0].Name = "main"
	if _, err := jobs.Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var release []func()
	for _, name := range []string{"one", "another"} {
		free, ok := ts.patches.Take(t.Context(), fairshare.Client{Name: name})
		if !ok {
			t.Fatal("no turn is free")
		}
		release = append(release, free)
	}
	done := make(chan error, 1)
	go func() {
		_, err := jobs.Patch(t.Context(), "a", types.StrategicMergePatchType, patch(2000), metav1.PatchOptions{})
		done <- err
	}()
	waitFor(t, "it waits", func() bool { _, waiting, _ := ts.patches.Figures(); return waiting == 1 })
	if _, err := jobs.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"c":"d"}}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("a small patch: %v", err)
	}
	if len(done) > 0 {
		t.Error("it does not wait")
	}
	for _, free := range release {
		free()
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func force(kind types.PatchType) *bool {
	if kind == types.ApplyPatchType {
		return ptr.To(true)
	}
	return nil
}

func TestServerSideApply(t *testing.T) {
	ts := startServer(t)
	jobs := ts.client(t).BatchV1().Jobs("default")
	apply := func(manager string, parallelism int32, force bool) (*batchv1.Job, error) {
		return jobs.Apply(t.Context(), applybatch.Job("a", "default").WithSpec(applybatch.JobSpec().
			WithParallelism(parallelism).
			WithTemplate(applycore.PodTemplateSpec().WithSpec(applycore.PodSpec().
				WithRestartPolicy(corev1.RestartPolicyNever).
				WithContainers(applycore.Container().WithName("c").WithImage("busybox"))))),
			metav1.ApplyOptions{FieldManager: manager, Force: force})
	}
	made, err := apply("one", 1, false)
	if err != nil {
		t.Fatal(err)
	}
	if len(made.ManagedFields) != 1 || made.ManagedFields[0].Operation != metav1.ManagedFieldsOperationApply {
		t.Errorf("managed fields: %v", made.ManagedFields)
	}
	if strings.Contains(made.ManagedFields[0].FieldsV1.GetRawString(), "backoffLimit") {
		t.Error("a default is owned by who did not set it")
	}
	again, err := apply("one", 1, false)
	if err != nil || again.ResourceVersion != made.ResourceVersion {
		t.Errorf("the same again was written: %v", err)
	}
	if _, err := apply("two", 2, false); !apierrors.IsConflict(err) {
		t.Errorf("another manager's field: %v", err)
	}
	taken, err := apply("two", 2, true)
	if err != nil || *taken.Spec.Parallelism != 2 {
		t.Errorf("taken by force: %v", err)
	}
}

func TestStatusAndSpecAreWrittenApart(t *testing.T) {
	ts := startServer(t)
	jobs := ts.client(t).BatchV1().Jobs("default")
	job := newJob("a")
	job.Status.Succeeded = 7
	made := mustMake(t, jobs, job)
	if made.Status.Succeeded != 0 {
		t.Error("a new Job has a status")
	}
	changed := made.DeepCopy()
	changed.Status.Active = 1
	changed.Spec.Parallelism = ptr.To[int32](9)
	got, err := jobs.UpdateStatus(t.Context(), changed, metav1.UpdateOptions{})
	if err != nil || got.Status.Active != 1 || *got.Spec.Parallelism != 1 {
		t.Errorf("%+v: %v", got, err)
	}
}
