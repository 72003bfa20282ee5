package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/conditions"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/disruption"
)

func TestEvictionsFollowBudgets(t *testing.T) {
	ts := startServer(t)
	c := ts.client(t)
	pods, budgets := c.CoreV1().Pods("default"), c.PolicyV1().PodDisruptionBudgets("default")
	add := func(name, app string, phase corev1.PodPhase, ready corev1.ConditionStatus) {
		t.Helper()
		p := newPod(name, "c")
		p.Labels = map[string]string{"app": app}
		mustMake(t, pods, p)
		ts.bind(t, name, "n", corev1.ContainerStatus{Name: "c"})
		bound, err := pods.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		bound.Status.Phase = phase
		bound.Status.Conditions = append(bound.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: ready})
		if _, err := pods.UpdateStatus(t.Context(), bound, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	evict := func(name string, dry bool) error {
		e := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if dry {
			e.DeleteOptions = &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
		}
		return pods.EvictV1(t.Context(), e)
	}
	guard := func(name, app string, allowed int32) {
		t.Helper()
		b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name}}
		b.Spec = policyv1.PodDisruptionBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, MinAvailable: ptr.To(intstr.FromInt32(1)),
		}
		b = mustMake(t, budgets, b)
		b.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, DisruptionsAllowed: allowed, CurrentHealthy: 1 + allowed, DesiredHealthy: 1}
		if _, err := budgets.UpdateStatus(t.Context(), b, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		add(name, "web", corev1.PodRunning, corev1.ConditionTrue)
	}
	add("unready", "web", corev1.PodRunning, corev1.ConditionFalse)
	add("ended", "web", corev1.PodSucceeded, corev1.ConditionFalse)
	add("free", "none", corev1.PodRunning, corev1.ConditionTrue)
	add("twice", "db", corev1.PodRunning, corev1.ConditionTrue)
	guard("web", "web", 2)
	guard("db", "db", 1)
	guard("db-too", "db", 1)

	if err := evict("a", true); err != nil {
		t.Errorf("a dry run: %v", err)
	}
	var allowed atomic.Int32
	var all sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d"} {
		all.Go(func() {
			switch err := evict(name, false); {
			case err == nil:
				allowed.Add(1)
			case !apierrors.IsTooManyRequests(err) || !apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause):
				t.Errorf("the eviction of %s: %v", name, err)
			}
		})
	}
	all.Wait()
	if allowed.Load() != 2 {
		t.Errorf("of four evictions at once %d were allowed, want 2", allowed.Load())
	}
	b, err := budgets.Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil || b.Status.DisruptionsAllowed != 0 || len(b.Status.DisruptedPods) != 2 {
		t.Errorf("%v, %+v", err, b.Status)
	}
	for _, name := range []string{"unready", "ended", "free"} {
		if err := evict(name, false); err != nil {
			t.Errorf("the eviction of the pod %s: %v", name, err)
		}
	}
	var status apierrors.APIStatus
	err = evict("twice", false)
	status, _ = err.(apierrors.APIStatus)
	if status == nil || status.Status().Code != http.StatusInternalServerError || !strings.Contains(err.Error(), "more than one PodDisruptionBudget") {
		t.Errorf("with two budgets: %v", err)
	}
}

// meddler changes a pod whenever it is about to be deleted, as often as it is told.
type meddler struct {
	rest.RESTDeleteStrategy
	times  int
	change func(int)
}

func (c *meddler) CheckGracefulDelete(ctx context.Context, obj runtime.Object, options *metav1.DeleteOptions) bool {
	if c.times > 0 {
		c.times--
		c.change(c.times)
	}
	return c.RESTDeleteStrategy.(rest.RESTGracefulDeleteStrategy).CheckGracefulDelete(ctx, obj, options)
}

// It is decided again about a pod that has not begun and changes before it is deleted. If it cannot be evicted, it stays
// without the mark.
func TestAPodChangesWhileItIsEvicted(t *testing.T) {
	for name, c := range map[string]struct {
		times  int
		evicts bool
	}{"not at all": {0, true}, "once": {1, true}, "again and again": {1000, false}} {
		t.Run(name, func(t *testing.T) {
			ts := startServer(t)
			client := ts.client(t)
			pods := client.CoreV1().Pods("default")
			mustMake(t, pods, newPod("p", "c"))
			b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "all"}}
			b.Spec.Selector, b.Spec.MinAvailable = &metav1.LabelSelector{}, ptr.To(intstr.FromInt32(1))
			mustMake(t, client.PolicyV1().PodDisruptionBudgets("default"), b)

			evicted, err := ts.registry(core.PodKind())
			if err != nil {
				t.Fatal(err)
			}
			evicted.DeleteStrategy = &meddler{evicted.DeleteStrategy, c.times, func(n int) {
				patch := fmt.Sprintf(`{"metadata":{"labels":{"n":"%d"}}}`, n)
				if _, err := pods.Patch(t.Context(), "p", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
					t.Error(err)
				}
			}}
			budgets, err := ts.registry(disruption.Kind())
			if err != nil {
				t.Fatal(err)
			}
			e := &podEviction{evicted, disruptionBudgets{budgets, ts.store}}
			_, err = e.Create(request.WithNamespace(t.Context(), "default"), "p", &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p"}},
				nil, &metav1.CreateOptions{})
			left, gone := pods.Get(t.Context(), "p", metav1.GetOptions{})
			if c.evicts {
				if err != nil || !apierrors.IsNotFound(gone) {
					t.Errorf("%v; the pod: %v", err, gone)
				}
				return
			}
			if !apierrors.IsTooManyRequests(err) || gone != nil {
				t.Fatalf("%v; the pod: %v", err, gone)
			}
			mark := conditions.Find(left.Status.Conditions, corev1.DisruptionTarget)
			if mark == nil || mark.Status != corev1.ConditionFalse || left.DeletionTimestamp != nil {
				t.Errorf("the pod stays, marked %+v", mark)
			}
		})
	}
}
