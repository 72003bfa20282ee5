package pod

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/runtime"
)

// BenchmarkTransition measures one turn of a pod's life: Apply and Next, without the store.
func BenchmarkTransition(b *testing.B) {
	status := runtime.Status{State: runtime.Running, StartedAt: epoch}
	ended := runtime.Status{State: runtime.Exited, StartedAt: epoch, FinishedAt: epoch}
	about := duty.Observation{UID: "u", Container: "c", At: epoch}
	see := func(what duty.What, s runtime.Status) duty.Observation {
		o := about
		o.What, o.Status = what, s
		return o
	}
	launched := []duty.Observation{see(duty.SetUp, status), see(duty.Pulled, status), see(duty.Started, status)}
	turns := []struct {
		name string
		seen []duty.Observation
	}{
		{"bound", nil},
		{"started", launched},
		{"nothing new", nil},
		{"exited", []duty.Observation{see(duty.Exited, ended)}},
		{"torn down", []duty.Observation{see(duty.TornDown, status)}},
	}
	pod, issued := newPod(corev1.RestartPolicyNever, "c"), Issued{}
	for _, turn := range turns {
		before, memory := pod.DeepCopy(), slices.Clone(issued.look().containers)
		b.Run(strings.ReplaceAll(turn.name, " ", "-"), func(b *testing.B) {
			b.ReportAllocs()
			pods := make([]*corev1.Pod, 8192)
			for i := range b.N {
				if i%len(pods) == 0 {
					b.StopTimer()
					for j := range pods {
						pods[j] = before.DeepCopy()
					}
					b.StartTimer()
				}
				issued := Issued{open: &unsettled{containers: slices.Clone(memory)}}
				Apply(pods[i%len(pods)], &issued, turn.seen, epoch)
				Next(pods[i%len(pods)], &issued, epoch)
			}
		})
		Apply(pod, &issued, turn.seen, epoch)
		actions, _ := Next(pod, &issued, epoch)
		issued.Record(actions, epoch)
	}
}
