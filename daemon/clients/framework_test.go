package clients

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
)

// TestWhatTestFrameworksNeed goes through what a test framework for clusters does around and in each of its tests.
func TestWhatTestFrameworksNeed(t *testing.T) {
	t.Parallel()
	d := start(t)
	f := framework{clientset(t, d.network()), dynamic.NewForConfigOrDie(d.network())}
	if err := f.suite(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		if err := f.test(t.Context(), fmt.Sprint("row-", i)); err != nil {
			t.Fatalf("test %d in a row: %v", i, err)
		}
	}
	var together sync.WaitGroup
	for i := range 10 {
		together.Go(func() {
			if err := f.test(t.Context(), fmt.Sprint("side-", i)); err != nil {
				t.Errorf("test %d beside others: %v", i, err)
			}
		})
	}
	together.Wait()

	// What the tests have made is gone, to the last object.
	s := d.database()
	for _, prefix := range []string{"row-", "side-"} {
		for key := range everything(t, s) {
			if strings.Contains(key, prefix) {
				t.Errorf("left: %s", key)
			}
		}
	}
}

type framework struct {
	*kubernetes.Clientset
	dynamic dynamic.Interface
}

// suite is what is done once, before all tests.
func (f framework) suite(ctx context.Context) error {
	version, err := f.Discovery().ServerVersion()
	if err != nil || version.Major != "1" || version.Minor == "" || !strings.HasPrefix(version.GitVersion, "v1.") {
		return fmt.Errorf("version %+v: %w", version, err)
	}
	v2, err := f.Discovery().OpenAPISchema()
	for late := time.Now().Add(patience); apierrors.IsTimeout(err) && time.Now().Before(late); {
		v2, err = f.Discovery().OpenAPISchema() // it is made at the first request, for which a busy machine takes too long
	}
	if err != nil || len(v2.GetDefinitions().GetAdditionalProperties()) < 100 {
		return fmt.Errorf("OpenAPI v2: %w", err)
	}
	v3, err := f.Discovery().OpenAPIV3().Paths()
	if err != nil {
		return err
	}
	for _, path := range []string{"api/v1", "apis/batch/v1"} {
		document, err := v3[path].Schema("application/json")
		if err != nil || !json.Valid(document) {
			return fmt.Errorf("OpenAPI v3 of %s: %d bytes: %w", path, len(document), err)
		}
	}
	nodes, err := f.CoreV1().Nodes().List(ctx, metav1.ListOptions{FieldSelector: "spec.unschedulable=false"})
	if err != nil {
		return err
	}
	schedulable := 0
	for _, n := range nodes.Items {
		ready := false
		for _, c := range n.Status.Conditions {
			ready = ready || c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}
		if ready && !n.Spec.Unschedulable && len(n.Spec.Taints) == 0 && !n.Status.Allocatable.Cpu().IsZero() {
			schedulable++
		}
	}
	if schedulable != 1 {
		return fmt.Errorf("%d nodes are ready and schedulable", schedulable)
	}
	return nil
}

// test is one test: a namespace of its own, objects in it, and the end of all.
func (f framework) test(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	made, err := f.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: name + "-", Labels: map[string]string{"e2e-framework": name},
	}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	ns := made.Name
	for _, step := range []struct {
		what string
		do   func(context.Context, string) error
	}{
		{"the default ServiceAccount", f.waitForServiceAccount},
		{"the root certificate", f.waitForRootCA},
		{"a Job that completes", f.runJob},
		{"the status in every type of patch", f.patchStatus},
		{"an eviction", f.evict},
		{"deletions", f.delete},
		{"the end of the namespace", f.deleteNamespace},
	} {
		if err := step.do(ctx, ns); err != nil {
			return fmt.Errorf("%s: %s: %w", ns, step.what, err)
		}
	}
	return nil
}

// until waits for an object by name as frameworks do: a list, then a watch from its version.
func until[L runtime.Object](
	ctx context.Context, name string, example runtime.Object, list func(context.Context, metav1.ListOptions) (L, error),
	follow func(context.Context, metav1.ListOptions) (watch.Interface, error), is func(watch.Event) (bool, error),
) error {
	selector := "metadata.name=" + name
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selector
			return list(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector
			return follow(ctx, o)
		},
	}
	_, err := watchtools.UntilWithSync(ctx, lw, example, nil, is)
	return err
}

func (f framework) waitForServiceAccount(ctx context.Context, ns string) error {
	c := f.CoreV1().ServiceAccounts(ns)
	_, err := watchtools.Until(ctx, "1", &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		o.FieldSelector = "metadata.name=default"
		return c.Watch(ctx, o)
	}}, func(e watch.Event) (bool, error) { return e.Type == watch.Added, nil })
	return err
}

func (f framework) waitForRootCA(ctx context.Context, ns string) error {
	c := f.CoreV1().ConfigMaps(ns)
	w, err := c.Watch(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=kube-root-ca.crt", SendInitialEvents: ptr.To(true),
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true,
	})
	if err != nil {
		return err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if cm, ok := e.Object.(*corev1.ConfigMap); ok && e.Type == watch.Added {
			if !strings.Contains(cm.Data["ca.crt"], "BEGIN CERTIFICATE") {
				return errors.New("it holds none")
			}
			return nil
		}
	}
	return errors.New("the watch has ended")
}

func (f framework) runJob(ctx context.Context, ns string) error {
	c := f.BatchV1().Jobs(ns)
	if _, err := c.Create(ctx, newJob("job", 2, nil), metav1.CreateOptions{}); err != nil {
		return err
	}
	err := until(ctx, "job", &batchv1.Job{}, c.List, c.Watch, func(e watch.Event) (bool, error) {
		j := e.Object.(*batchv1.Job)
		for _, cond := range j.Status.Conditions {
			if cond.Type == batchv1.JobComplete && cond.Status == corev1.ConditionTrue {
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	pods, err := f.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=job"})
	if err != nil {
		return err
	}
	succeeded := 0
	for _, p := range pods.Items {
		if p.Status.Phase == corev1.PodSucceeded && metav1.IsControlledBy(&p, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{UID: p.OwnerReferences[0].UID}}) {
			succeeded++
		}
	}
	if succeeded != 2 {
		return fmt.Errorf("%d of %d pods have succeeded", succeeded, len(pods.Items))
	}
	return nil
}

func (f framework) patchStatus(ctx context.Context, ns string) error {
	suspended := newJob("status", 1, nil)
	suspended.Spec.Suspend = ptr.To(true)
	if _, err := f.BatchV1().Jobs(ns).Create(ctx, suspended, metav1.CreateOptions{}); err != nil {
		return err
	}
	jobs := f.dynamic.Resource(batchv1.SchemeGroupVersion.WithResource("jobs")).Namespace(ns)
	conditions := func(obj *unstructured.Unstructured) map[string]bool {
		types := map[string]bool{}
		list, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
		for _, c := range list {
			types[c.(map[string]any)["type"].(string)] = true
		}
		return types
	}
	const condition = `{"type":%q,"status":"True","lastProbeTime":null,"lastTransitionTime":null}`
	for _, p := range []struct {
		kind types.PatchType
		body string
		want []string
	}{
		{types.StrategicMergePatchType, `{"status":{"conditions":[` + fmt.Sprintf(condition, "ByStrategic") + `]}}`, []string{"ByStrategic"}},
		{
			types.JSONPatchType, `[{"op":"add","path":"/status/conditions/-","value":` + fmt.Sprintf(condition, "ByJSON") + `}]`,
			[]string{"ByStrategic", "ByJSON"},
		},
		{
			types.ApplyPatchType,
			`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"status"},"status":{"conditions":[` + fmt.Sprintf(condition, "ByApply") + `]}}`,
			[]string{"ByApply"},
		},
		{types.MergePatchType, `{"status":{"conditions":[` + fmt.Sprintf(condition, "ByMerge") + `]}}`, []string{"ByMerge"}},
	} {
		options := metav1.PatchOptions{FieldManager: "framework"}
		if p.kind == types.ApplyPatchType {
			options.Force = ptr.To(true)
		}
		obj, err := jobs.Patch(ctx, "status", p.kind, []byte(p.body), options, "status")
		if err != nil {
			return fmt.Errorf("%s: %w", p.kind, err)
		}
		got := conditions(obj)
		for _, want := range p.want {
			if !got[want] {
				return fmt.Errorf("%s: conditions %v, not %s", p.kind, got, want)
			}
		}
	}
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error { // the daemon writes it too
		obj, err := jobs.Get(ctx, "status", metav1.GetOptions{}, "status")
		if err != nil {
			return err
		}
		unstructured.RemoveNestedField(obj.Object, "status", "conditions")
		if obj, err = jobs.UpdateStatus(ctx, obj, metav1.UpdateOptions{}); err == nil && conditions(obj)["ByMerge"] {
			err = fmt.Errorf("after an update of the status: %v", conditions(obj))
		}
		return err
	})
}

func (f framework) evict(ctx context.Context, ns string) error {
	c := f.CoreV1().Pods(ns)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "evicted", Annotations: map[string]string{"jobd.dev/simulate-duration": "1h"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "busybox"}}, TerminationGracePeriodSeconds: ptr.To[int64](1)},
	}
	if _, err := c.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return err
	}
	running := func(e watch.Event) (bool, error) {
		return e.Object.(*corev1.Pod).Status.Phase == corev1.PodRunning, nil
	}
	if err := until(ctx, "evicted", &corev1.Pod{}, c.List, c.Watch, running); err != nil {
		return fmt.Errorf("it does not run: %w", err)
	}
	if err := c.EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "evicted"}}); err != nil {
		return err
	}
	return f.gone(ctx, func(ctx context.Context) error {
		_, err := c.Get(ctx, "evicted", metav1.GetOptions{})
		return err
	})
}

func (f framework) delete(ctx context.Context, ns string) error {
	err := f.BatchV1().Jobs(ns).Delete(ctx, "job", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)})
	if err != nil {
		return err
	}
	if err := f.gone(ctx, func(ctx context.Context) error {
		_, err := f.BatchV1().Jobs(ns).Get(ctx, "job", metav1.GetOptions{})
		return err
	}); err != nil {
		return err
	}
	pods, err := f.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=job"})
	if err == nil && len(pods.Items) > 0 {
		err = fmt.Errorf("%d pods have outlived their Job", len(pods.Items))
	}
	return err
}

func (f framework) deleteNamespace(ctx context.Context, ns string) error {
	if err := f.CoreV1().Namespaces().Delete(ctx, ns, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := f.gone(ctx, func(ctx context.Context) error {
		_, err := f.CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{})
		return err
	}); err != nil {
		return err
	}
	// Everything that discovery knows and that can be listed is looked through, as frameworks do.
	resources, err := f.Discovery().ServerPreferredNamespacedResources()
	if err != nil {
		return err
	}
	for _, group := range resources {
		for _, r := range group.APIResources {
			gv, err := schema.ParseGroupVersion(group.GroupVersion)
			if err != nil {
				return err
			}
			if !slices.Contains(r.Verbs, "list") {
				continue
			}
			list, err := f.dynamic.Resource(gv.WithResource(r.Name)).Namespace(ns).List(ctx, metav1.ListOptions{})
			if err != nil {
				return fmt.Errorf("list %s: %w", r.Name, err)
			}
			if len(list.Items) > 0 {
				return fmt.Errorf("%d %s have outlived the namespace", len(list.Items), r.Name)
			}
		}
	}
	return nil
}

// gone waits until what is read is not found.
func (f framework) gone(ctx context.Context, read func(context.Context) error) error {
	for {
		err := read(ctx)
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("it is still there: %w", ctx.Err())
		}
	}
}
