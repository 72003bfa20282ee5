package server

import (
	"strings"
	"testing"

	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPodNamesWhatIsThere(t *testing.T) {
	ts := startServer(t)
	c := ts.client(t)
	classes, pods := c.SchedulingV1().PriorityClasses(), c.CoreV1().Pods("default")
	class := func(name string, value int32, global bool) *schedulingv1.PriorityClass {
		return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, GlobalDefault: global}
	}
	if err := classes.Delete(t.Context(), "system-node-critical", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "this is a system priority class and cannot be deleted") {
		t.Errorf("a built-in class: %v", err)
	}
	mustMake(t, classes, class("normal", 10, true))
	if _, err := classes.Create(t.Context(), class("other", 10, true), metav1.CreateOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "PriorityClass normal is already marked as default. Only one default can exist") {
		t.Errorf("a second default: %v", err)
	}
	if pod := mustMake(t, pods, newPod("a", "c")); *pod.Spec.Priority != 10 || pod.Spec.PriorityClassName != "normal" {
		t.Errorf("of the default class: %+v", pod.Spec)
	}
	pod := newPod("b", "c")
	pod.Spec.PriorityClassName = "nope"
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); !apierrors.IsForbidden(err) || err.Error() != `pods "b" is forbidden: no PriorityClass with name nope was found` {
		t.Errorf("a class that is not there: %v", err)
	}
	pod = newPod("b", "c")
	pod.Spec.ServiceAccountName = "nope"
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err == nil || err.Error() != `pods "b" is forbidden: error looking up service account default/nope: serviceaccount "nope" not found` {
		t.Errorf("an account that is not there: %v", err)
	}
}
