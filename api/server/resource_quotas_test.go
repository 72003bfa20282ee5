package server

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func amountsOf(amounts ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(amounts); i += 2 {
		out[corev1.ResourceName(amounts[i])] = apiresource.MustParse(amounts[i+1])
	}
	return out
}

func TestResourceQuota(t *testing.T) {
	ts := startServer(t)
	client, ctx := ts.client(t), t.Context()
	quotas := client.CoreV1().ResourceQuotas("default")
	used := func(name string) map[string]string {
		t.Helper()
		q, err := quotas.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for of, amount := range q.Status.Used {
			out[string(of)] = amount.String()
		}
		return out
	}
	expect := func(name string, want ...string) {
		t.Helper()
		m := map[string]string{}
		for i := 0; i < len(want); i += 2 {
			m[want[i]] = want[i+1]
		}
		if got := used(name); fmt.Sprint(got) != fmt.Sprint(m) {
			t.Errorf("%s: %v are used, want %v", name, got, m)
		}
	}
	refused := func(err error, words string) {
		t.Helper()
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), words) {
			t.Errorf("got %v, want 403 with %q", err, words)
		}
	}
	pod := func(name, cpu, memory string) *corev1.Pod {
		p := newPod(name, "c")
		p.Spec.Containers[0].Resources.Requests = amountsOf("cpu", cpu, "memory", memory)
		return p
	}

	// What is there before counts.
	mustMake(t, client.CoreV1().Pods("default"), pod("before", "500m", "100Mi"))
	made, err := quotas.Create(ctx, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "q"},
		Spec:       corev1.ResourceQuotaSpec{Hard: amountsOf("pods", "3", "requests.cpu", "1", "memory", "1Gi", "count/jobs.batch", "1", "configmaps", "2")},
		Status:     corev1.ResourceQuotaStatus{Used: amountsOf("pods", "99")},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n := made.Status.Used["pods"]; n.String() != "1" {
		t.Errorf("the answer to its creation has %+v", made.Status)
	}
	expect("q", "pods", "1", "requests.cpu", "500m", "memory", "100Mi", "count/jobs.batch", "0", "configmaps", "0")

	_, err = client.CoreV1().Pods("default").Create(ctx, newPod("unsaid", "c"), metav1.CreateOptions{})
	refused(err, `pods "unsaid" is forbidden: failed quota: q: must specify memory for: c; requests.cpu for: c`)
	_, err = client.CoreV1().Pods("default").Create(ctx, pod("large", "600m", "1Mi"), metav1.CreateOptions{})
	refused(err, `pods "large" is forbidden: exceeded quota: q, requested: requests.cpu=600m, used: requests.cpu=500m, limited: requests.cpu=1`)
	_, err = client.CoreV1().Pods("default").Create(ctx, pod("dry", "600m", "1Mi"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	refused(err, "exceeded quota: q")
	if _, err := client.CoreV1().Pods("default").Create(ctx, pod("dry", "500m", "1Mi"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Error(err)
	}
	mustMake(t, client.CoreV1().Pods("default"), pod("second", "500m", "100Mi"))
	expect("q", "pods", "2", "requests.cpu", "1", "memory", "200Mi", "count/jobs.batch", "0", "configmaps", "0")

	background := metav1.DeletePropagationBackground
	// Kinds of which only the number counts.
	mustMake(t, client.BatchV1().Jobs("default"), newJob("one"))
	_, err = client.BatchV1().Jobs("default").Create(ctx, newJob("two"), metav1.CreateOptions{})
	refused(err, `jobs.batch "two" is forbidden: exceeded quota: q, requested: count/jobs.batch=1, used: count/jobs.batch=1, limited: count/jobs.batch=1`)
	if err := client.BatchV1().Jobs("default").Delete(ctx, "one", metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
	mustMake(t, client.BatchV1().Jobs("default"), newJob("two"))

	// Nobody but the store says what is used, and other limits are counted anew.
	patch := []byte(`{"status": {"used": {"pods": "0"}}, "spec": {"hard": {"pods": "2", "requests.cpu": null, "limits.cpu": "1"}}}`)
	for _, part := range [][]string{nil, {"status"}} {
		if _, err := quotas.Patch(ctx, "q", types.MergePatchType, patch, metav1.PatchOptions{}, part...); err != nil {
			t.Fatal(err)
		}
	}
	expect("q", "pods", "2", "memory", "200Mi", "limits.cpu", "0", "count/jobs.batch", "1", "configmaps", "0")

	if err := client.CoreV1().Pods("default").Delete(ctx, "second", *metav1.NewDeleteOptions(0)); err != nil {
		t.Fatal(err)
	}
	expect("q", "pods", "1", "memory", "100Mi", "limits.cpu", "0", "count/jobs.batch", "1", "configmaps", "0")
	if table := ts.get(t, "/api/v1/namespaces/default/resourcequotas", "application/json;as=Table;v=v1;g=meta.k8s.io"); !strings.Contains(table,
		`"configmaps: 0/2, count/jobs.batch: 1/1, memory: 100Mi/1Gi, pods: 1/2","limits.cpu: 0/1"`) {
		t.Error(table)
	}
}

// However many clients create at once, no more is there than is allowed, and what is used is what is there.
func TestAQuotaHoldsForManyAtOnce(t *testing.T) {
	ts := startServer(t)
	client, ctx := ts.client(t), t.Context()
	if _, err := client.CoreV1().ResourceQuotas("default").Create(ctx, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: amountsOf("count/jobs.batch", "5")},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var made atomic.Int32
	var group sync.WaitGroup
	for i := range 40 {
		group.Go(func() {
			_, err := client.BatchV1().Jobs("default").Create(context.Background(), newJob(fmt.Sprint("j", i)), metav1.CreateOptions{})
			if err == nil {
				made.Add(1)
			} else if !apierrors.IsForbidden(err) {
				t.Error(err)
			}
		})
	}
	group.Wait()
	q, err := client.CoreV1().ResourceQuotas("default").Get(ctx, "q", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n := q.Status.Used["count/jobs.batch"]; made.Load() != 5 || n.String() != "5" {
		t.Errorf("%d Jobs were created, and %s are counted", made.Load(), n.String())
	}
}

func TestQuotasThatAreRefused(t *testing.T) {
	ts := startServer(t)
	quotas := ts.client(t).CoreV1().ResourceQuotas("default")
	for words, spec := range map[string]corev1.ResourceQuotaSpec{
		`spec.hard[gpus]: Invalid value: "gpus": must be a standard resource for quota`: {Hard: amountsOf("gpus", "1")},
		`spec.hard[pods]: Invalid value: "-1": must be greater than or equal to 0`:      {Hard: amountsOf("pods", "-1")},
		`spec.hard[pods]: Invalid value: "500m": must be an integer`:                    {Hard: amountsOf("pods", "500m")},
		`spec.scopes: Invalid value: ["Often"]: unsupported scope`:                      {Scopes: []corev1.ResourceQuotaScope{"Often"}},
		"conflicting scopes":                    {Scopes: []corev1.ResourceQuotaScope{"BestEffort", "NotBestEffort"}},
		"unsupported scope applied to resource": {Hard: amountsOf("cpu", "1"), Scopes: []corev1.ResourceQuotaScope{"BestEffort"}},
		"must be at least one value when `operator` is 'In'": {ScopeSelector: &corev1.ScopeSelector{
			MatchExpressions: []corev1.ScopedResourceSelectorRequirement{
				{ScopeName: "PriorityClass", Operator: "In"}}}},
	} {
		_, err := quotas.Create(t.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: spec}, metav1.CreateOptions{})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), words) {
			t.Errorf("got %v, want %s", err, words)
		}
	}
}
