package server

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func TestDeletingJobsWithoutAPolicyWarns(t *testing.T) {
	ts := startServer(t)
	c, warned := ts.warned(t)
	jobs := c.BatchV1().Jobs("default")
	const kept = "child pods are preserved by default when jobs are deleted; " +
		"set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning"
	for name, tc := range map[string]struct {
		options metav1.DeleteOptions
		want    string
	}{
		"no policy":  {metav1.DeleteOptions{}, kept},
		"a grace":    {*metav1.NewDeleteOptions(0), kept},
		"Background": {metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}, ""},
		"Orphan":     {metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationOrphan)}, ""},
		//lint:ignore SA1019 clients still send the older field
		"older": {metav1.DeleteOptions{OrphanDependents: ptr.To(false)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			mustMake(t, jobs, newJob("one"))
			mustMake(t, jobs, newJob("another"))
			warned.take()
			if err := jobs.Delete(t.Context(), "one", tc.options); err != nil || warned.take() != tc.want {
				t.Errorf("one: %v, or another warning than %q", err, tc.want)
			}
			if err := jobs.DeleteCollection(t.Context(), tc.options, metav1.ListOptions{}); err != nil || warned.take() != tc.want {
				t.Errorf("all: %v, or another warning than %q", err, tc.want)
			}
			for _, job := range []string{"one", "another"} { // nobody collects garbage here
				patch := []byte(`{"metadata":{"finalizers":null}}`)
				if _, err := jobs.Patch(t.Context(), job, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil &&
					!apierrors.IsNotFound(err) {
					t.Fatal(err)
				}
			}
		})
	}
	pods := c.CoreV1().Pods("default")
	mustMake(t, pods, newPod("p", "c"))
	warned.take()
	if err := pods.Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil || warned.take() != "" {
		t.Errorf("a pod: %v, or a warning", err)
	}
}

func TestDeletion(t *testing.T) {
	ts := startServer(t)
	c := ts.client(t)
	pods, jobs := c.CoreV1().Pods("default"), c.BatchV1().Jobs("default")

	t.Run("a Job that is deleted without a policy orphans its pods", func(t *testing.T) {
		mustMake(t, jobs, newJob("a"))
		code, text := ts.do(t, "DELETE", "/apis/batch/v1/namespaces/default/jobs/a", "", "")
		if code != 200 {
			t.Fatal(code, text)
		}
		got, err := jobs.Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil || len(got.Finalizers) != 1 || got.Finalizers[0] != metav1.FinalizerOrphanDependents ||
			got.DeletionTimestamp == nil || got.Generation != 2 {
			t.Errorf("%+v: %v", got.ObjectMeta, err)
		}
	})
	t.Run("foreground deletion waits for the dependents", func(t *testing.T) {
		mustMake(t, jobs, newJob("b"))
		if err := jobs.Delete(t.Context(), "b", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)}); err != nil {
			t.Fatal(err)
		}
		got, err := jobs.Get(t.Context(), "b", metav1.GetOptions{})
		if err != nil || len(got.Finalizers) != 1 || got.Finalizers[0] != metav1.FinalizerDeleteDependents {
			t.Errorf("%+v: %v", got.ObjectMeta, err)
		}
	})
	t.Run("a pod that was never bound goes at once", func(t *testing.T) {
		mustMake(t, pods, newPod("unbound", "c"))
		if err := pods.Delete(t.Context(), "unbound", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := pods.Get(t.Context(), "unbound", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	t.Run("a bound pod gets its grace", func(t *testing.T) {
		mustMake(t, pods, newPod("bound", "c"))
		ts.bind(t, "bound", "n")
		if err := pods.Delete(t.Context(), "bound", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		got, err := pods.Get(t.Context(), "bound", metav1.GetOptions{})
		if err != nil || got.DeletionTimestamp == nil || *got.DeletionGracePeriodSeconds != 30 {
			t.Fatalf("%+v: %v", got.ObjectMeta, err)
		}
		if err := pods.Delete(t.Context(), "bound", *metav1.NewDeleteOptions(5)); err != nil {
			t.Fatal(err)
		}
		if got, err = pods.Get(t.Context(), "bound", metav1.GetOptions{}); err != nil || *got.DeletionGracePeriodSeconds != 5 {
			t.Errorf("grace is not shortened: %v", err)
		}
		if err := pods.Delete(t.Context(), "bound", *metav1.NewDeleteOptions(0)); err != nil {
			t.Fatal(err)
		}
		if _, err := pods.Get(t.Context(), "bound", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("by force: %v", err)
		}
	})
	t.Run("the last finalizer holds a deleted object", func(t *testing.T) {
		pod := newPod("held", "c")
		pod.Finalizers = []string{"example.com/hold"}
		mustMake(t, pods, pod)
		if err := pods.Delete(t.Context(), "held", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := pods.Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := pods.Get(t.Context(), "held", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	t.Run("a collection is deleted by its selector", func(t *testing.T) {
		for _, name := range []string{"x", "y"} {
			pod := newPod(name, "c")
			pod.Labels = map[string]string{"name": name}
			mustMake(t, pods, pod)
		}
		if err := pods.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "name=x"}); err != nil {
			t.Fatal(err)
		}
		l, err := pods.List(t.Context(), metav1.ListOptions{})
		if err != nil || len(l.Items) != 1 || l.Items[0].Name != "y" {
			t.Errorf("%v: %v", l.Items, err)
		}
	})
	t.Run("an eviction says that the pod was disrupted", func(t *testing.T) {
		mustMake(t, pods, newPod("evicted", "c"))
		ts.bind(t, "evicted", "n")
		if err := pods.EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "evicted"}}); err != nil {
			t.Fatal(err)
		}
		got, err := pods.Get(t.Context(), "evicted", metav1.GetOptions{})
		if err != nil || got.DeletionTimestamp == nil {
			t.Fatalf("%v: %v", got, err)
		}
		last := got.Status.Conditions[len(got.Status.Conditions)-1]
		if last.Type != corev1.DisruptionTarget || last.Reason != "EvictionByEvictionAPI" {
			t.Error(last)
		}
		if err := pods.EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "nobody"}}); !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	t.Run("an eviction may be of the version that was before", func(t *testing.T) {
		mustMake(t, pods, newPod("beta", "c"))
		ts.bind(t, "beta", "n")
		beta := &policyv1beta1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "beta"}, DeleteOptions: metav1.NewDeleteOptions(7)}
		if err := pods.EvictV1beta1(t.Context(), beta); err != nil {
			t.Fatal(err)
		}
		got, err := pods.Get(t.Context(), "beta", metav1.GetOptions{})
		if err != nil || got.DeletionTimestamp == nil || *got.DeletionGracePeriodSeconds != 7 {
			t.Errorf("%v: %v", got, err)
		}
		url := "/api/v1/namespaces/default/pods/beta/eviction"
		code, text := ts.do(t, "POST", url, "application/json", `{"apiVersion":"policy/v2","kind":"Eviction","metadata":{"name":"beta"}}`)
		if code != 400 {
			t.Errorf("one that never was: %d %s", code, text)
		}
	})
}
