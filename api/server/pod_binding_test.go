package server

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/podspec"
)

func TestPodBinding(t *testing.T) {
	ts := startServer(t)
	pods := ts.client(t).CoreV1().Pods("default")
	mustMake(t, pods, newPod("waits", "c"))
	gated := newPod("gated", "c")
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/later"}}
	mustMake(t, pods, gated)
	to := func(pod string, change ...func(*corev1.Binding)) *corev1.Binding {
		b := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod}, Target: corev1.ObjectReference{Kind: "Node", Name: "box"}}
		for _, c := range change {
			c(b)
		}
		return b
	}
	for name, test := range map[string]struct {
		binding *corev1.Binding
		is      func(error) bool
		says    string
	}{
		"no target": {to("waits", func(b *corev1.Binding) { b.Target.Name = "" }), apierrors.IsInvalid, "target.name: Required value"},
		"no node":   {to("waits", func(b *corev1.Binding) { b.Target.Kind = "Pod" }), apierrors.IsInvalid, `target.kind: Unsupported value: "Pod"`},
		"no annotation": {
			to("waits", func(b *corev1.Binding) { b.Annotations = map[string]string{"a b": ""} }), apierrors.IsInvalid,
			"metadata.annotations: Invalid value",
		},
		"an annotation of jobd": {
			to("waits", func(b *corev1.Binding) { b.Annotations = map[string]string{"jobd.dev/paused-for": "1h"} }), apierrors.IsInvalid,
			"metadata.annotations[jobd.dev/paused-for]: Forbidden",
		},
		"another pod":     {to("waits", func(b *corev1.Binding) { b.UID = "other" }), apierrors.IsConflict, "UID"},
		"a gated pod":     {to("gated"), apierrors.IsConflict, "pod gated has non-empty .spec.schedulingGates"},
		"no pod":          {to("nope"), apierrors.IsNotFound, `"nope" not found`},
		"only a question": {to("waits"), func(err error) bool { return err == nil }, ""},
	} {
		options := metav1.CreateOptions{}
		if name == "only a question" {
			options.DryRun = []string{metav1.DryRunAll}
		}
		err := pods.Bind(t.Context(), test.binding, options)
		if !test.is(err) || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	get := func() *corev1.Pod {
		p, err := pods.Get(t.Context(), "waits", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	uid := get().UID
	if node := get().Spec.NodeName; node != "" {
		t.Fatalf("bound to %s already", node)
	}
	bind := to("waits", func(b *corev1.Binding) {
		b.UID, b.Annotations, b.Labels = uid, map[string]string{"rack": "7"}, map[string]string{"zone": "a"}
	})
	if err := pods.Bind(t.Context(), bind, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p := get()
	if p.Spec.NodeName != "box" || p.Annotations["rack"] != "7" || p.Labels["zone"] != "a" || podspec.Bound(p) {
		t.Errorf("bound by the API, and not taken by the node yet: %+v", p)
	}
	if err := pods.Bind(t.Context(), to("waits"), metav1.CreateOptions{}); !apierrors.IsConflict(err) ||
		!strings.Contains(err.Error(), `pod waits is already assigned to node "box"`) {
		t.Errorf("bound again: %v", err)
	}
	mustMake(t, pods, newPod("other", "c"))
	code, text := ts.do(t, "POST", "/api/v1/namespaces/default/bindings", "application/json",
		`{"apiVersion":"v1","kind":"Binding","metadata":{"name":"other"},"target":{"name":"box"}}`)
	if code != 201 {
		t.Errorf("POST bindings: %d %s", code, text)
	}
}
