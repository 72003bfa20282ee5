package pod

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestWhatContainersReportTogetherIsOneEvent(t *testing.T) {
	pod, issued := newPod(corev1.RestartPolicyNever, "a", "b"), Issued{}
	doubted := Observation{UID: pod.UID, What: Doubted, Reason: "DNSConfigForming", Message: "omitted"}
	other := doubted
	other.Message = "more was omitted"
	got := Apply(pod, &issued, []Observation{doubted, doubted, other}, epoch).Events
	want := []Event{
		{Type: corev1.EventTypeWarning, Reason: "DNSConfigForming", Message: "omitted"},
		{Type: corev1.EventTypeWarning, Reason: "DNSConfigForming", Message: "more was omitted"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("events are %+v", got)
	}
}
