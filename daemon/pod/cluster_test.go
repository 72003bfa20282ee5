package pod

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/runtime"
)

// TestStatusIsThatOfACluster replays the lives of pods that a real cluster ran, and compares the status with the one
// that its kubelet left (testdata/cluster-pods.yaml, recorded from v1.37.1).
func TestStatusIsThatOfACluster(t *testing.T) {
	data, err := os.ReadFile("testdata/cluster-pods.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range strings.Split(string(data), "\n---\n") {
		want := &corev1.Pod{}
		if err := yaml.UnmarshalStrict([]byte(document), want); err != nil {
			t.Fatal(err)
		}
		t.Run(want.Name, func(t *testing.T) {
			got := want.DeepCopy()
			got.Status = corev1.PodStatus{
				Phase: corev1.PodPending, QOSClass: want.Status.QOSClass,
				HostIP: want.Status.HostIP, HostIPs: want.Status.HostIPs,
				Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}, // by binding
			}
			var issued Issued
			Apply(got, &issued, nil, want.Status.StartTime.Time)
			for _, o := range livedThrough(want) {
				Apply(got, &issued, []duty.Observation{o}, o.At)
			}
			// These lie outside what a pod's worker knows, or name a moment or an object of that cluster.
			for _, s := range []*corev1.PodStatus{&got.Status, &want.Status} {
				s.Resources = nil
				for i := range s.Conditions {
					s.Conditions[i].LastTransitionTime = metav1.Time{}
				}
				for i := range s.ContainerStatuses {
					c := &s.ContainerStatuses[i]
					c.User, c.ContainerID = nil, ""
					for _, state := range []*corev1.ContainerState{&c.State, &c.LastTerminationState} {
						if state.Terminated != nil {
							state.Terminated.ContainerID = ""
						}
					}
				}
			}
			if diff := cmp.Diff(want.Status, got.Status); diff != "" {
				t.Errorf("status (- cluster, + here):\n%s", diff)
			}
		})
	}
}

// livedThrough returns what must have been observed of a pod for it to have this status.
func livedThrough(pod *corev1.Pod) []duty.Observation {
	var ips []string
	for _, ip := range pod.Status.PodIPs {
		ips = append(ips, ip.IP)
	}
	list := []duty.Observation{{What: duty.SetUp, IPs: ips}}
	for _, c := range pod.Status.ContainerStatuses {
		image := runtime.Image{Name: c.Image, ID: c.ImageID}
		for i, state := range []corev1.ContainerState{c.LastTerminationState, c.State} {
			o := duty.Observation{Container: c.Name, Attempt: int(c.RestartCount) - 1 + i, Image: image}
			switch {
			case state.Running != nil:
				o.What, o.Status = duty.Started, runtime.Status{State: runtime.Running, StartedAt: state.Running.StartedAt.Time}
			case state.Terminated != nil:
				s := state.Terminated
				o.What, o.Status = duty.Exited, runtime.Status{
					State: runtime.Exited, ExitCode: int(s.ExitCode), StartedAt: s.StartedAt.Time, FinishedAt: s.FinishedAt.Time,
				}
				if s.Reason == "StartError" {
					o.Status.StartError = s.Message
				} else {
					o.Status.Message = s.Message
				}
			default:
				continue
			}
			list = append(list, o)
		}
	}
	list = append(list, duty.Observation{What: duty.TornDown})
	for i := range list {
		list[i].UID, list[i].At = pod.UID, pod.Status.StartTime.Add(time.Duration(i)*time.Second)
	}
	return list
}
