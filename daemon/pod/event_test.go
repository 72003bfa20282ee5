package pod

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/runtime"
)

func TestWhatContainersReportTogetherIsOneEvent(t *testing.T) {
	pod, issued := newPod(corev1.RestartPolicyNever, "a", "b"), Issued{}
	doubted := duty.Observation{UID: pod.UID, What: duty.Doubted, Reason: "DNSConfigForming", Message: "omitted"}
	other := doubted
	other.Message = "more was omitted"
	got := Apply(pod, &issued, []duty.Observation{doubted, doubted, other}, epoch).Events
	want := []Event{
		{Type: corev1.EventTypeWarning, Reason: "DNSConfigForming", Message: "omitted"},
		{Type: corev1.EventTypeWarning, Reason: "DNSConfigForming", Message: "more was omitted"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("events are %+v", got)
	}
}

func TestMessagesOfStatesAreBounded(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for _, o := range []duty.Observation{
		{What: duty.StartFailed, Container: "a", Reason: duty.InvalidImageName, Message: long},
		{What: duty.StartFailed, Container: "a", Reason: duty.ErrImagePull, Message: long},
		{What: duty.SetUpFailed, Container: "a", Reason: "FailedMount", Message: long},
		{What: duty.Exited, Container: "a", Status: runtime.Status{StartError: long}},
		{What: duty.Rejected, Reason: "SysctlForbidden", Message: long},
		{What: duty.Evicted, Message: long},
	} {
		pod, issued := newPod(corev1.RestartPolicyNever, "a"), Issued{}
		o.UID = pod.UID
		Apply(pod, &issued, nil, epoch)
		Next(pod, &issued, epoch)
		result := Apply(pod, &issued, []duty.Observation{o}, epoch)
		if !result.Changed && len(result.Events) == 0 {
			t.Errorf("%v %s changes nothing", o.What, o.Reason)
		}
		if size := pod.Status.Size(); size > 8<<10 {
			t.Errorf("%v %s: a status of %d bytes", o.What, o.Reason, size)
		}
	}
}
