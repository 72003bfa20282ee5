package server

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestPodNamesWhatIsThere(t *testing.T) {
	ts := startServer(t)
	c := ts.client(t)
	classes, pods := c.SchedulingV1().PriorityClasses(), c.CoreV1().Pods("default")
	class := func(name string, value int32, global bool) *schedulingv1.PriorityClass {
		return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, GlobalDefault: global}
	}
	if err := classes.Delete(t.Context(), "system-node-critical", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), "this is a system priority class and cannot be deleted") {
		t.Errorf("a built-in class: %v", err)
	}
	mustMake(t, classes, class("normal", 10, true))
	if _, err := classes.Create(t.Context(), class("other", 10, true), metav1.CreateOptions{}); !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), "PriorityClass normal is already marked as default. Only one default can exist") {
		t.Errorf("a second default: %v", err)
	}
	if pod := mustMake(t, pods, newPod("a", "c")); *pod.Spec.Priority != 10 || pod.Spec.PriorityClassName != "normal" {
		t.Errorf("of the default class: %+v", pod.Spec)
	}
	pod := newPod("b", "c")
	pod.Spec.PriorityClassName = "nope"
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); !apierrors.IsForbidden(err) ||
		err.Error() != `pods "b" is forbidden: no PriorityClass with name nope was found` {
		t.Errorf("a class that is not there: %v", err)
	}
	pod = newPod("b", "c")
	pod.Spec.ServiceAccountName = "nope"
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err == nil ||
		err.Error() != `pods "b" is forbidden: error looking up service account default/nope: serviceaccount "nope" not found` {
		t.Errorf("an account that is not there: %v", err)
	}
}

func TestAPodGetsWhatItsRuntimeClassHas(t *testing.T) {
	ts := startServer(t)
	c := ts.client(t)
	classes, pods := c.NodeV1().RuntimeClasses(), c.CoreV1().Pods("default")
	mustMake(t, classes, &nodev1.RuntimeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "sandboxed"}, Handler: "runsc",
		Overhead:   &nodev1.Overhead{PodFixed: corev1.ResourceList{corev1.ResourceMemory: apiresource.MustParse("64Mi")}},
		Scheduling: &nodev1.Scheduling{NodeSelector: map[string]string{"a": "b"}},
	})
	pod := newPod("a", "c")
	pod.Spec.RuntimeClassName = ptr.To("sandboxed")
	made := mustMake(t, pods, pod)
	if memory := made.Spec.Overhead[corev1.ResourceMemory]; memory.String() != "64Mi" || made.Spec.NodeSelector["a"] != "b" {
		t.Errorf("overhead %v, selector %v", made.Spec.Overhead, made.Spec.NodeSelector)
	}
	refused := func(what string, change func(*corev1.PodSpec), want string) {
		t.Helper()
		pod := newPod("b", "c")
		change(&pod.Spec)
		if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); !apierrors.IsForbidden(err) || err.Error() != `pods "b" is forbidden: `+want {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("a class that is not there", func(s *corev1.PodSpec) { s.RuntimeClassName = ptr.To("nope") }, `pod rejected: RuntimeClass "nope" not found`)
	refused("an overhead without a class", func(s *corev1.PodSpec) { s.Overhead = made.Spec.Overhead },
		"pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
	refused("another selector", func(s *corev1.PodSpec) {
		s.RuntimeClassName, s.NodeSelector = ptr.To("sandboxed"), map[string]string{"a": "c"}
	}, "conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = c")
	if err := classes.Delete(t.Context(), "sandboxed", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	refused(
		"a class that was deleted", func(s *corev1.PodSpec) { s.RuntimeClassName = ptr.To("sandboxed") },
		`pod rejected: RuntimeClass "sandboxed" not found`,
	)
}
