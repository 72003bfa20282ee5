package simulation

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Recorded returns a function for Config.Behave that repeats what the containers of a real Job did, by its pods: the n-th
// start of an index, or the n-th pod, ends as the n-th there did. Starts beyond those that are known succeed, after the
// time that successes took there in the middle.
func Recorded(pods []*corev1.Pod) func(Start) End {
	type key struct {
		index, nth int
		container  string
	}
	ends := map[key]End{}
	var successes []time.Duration
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	seen := map[int]int{}
	for n, p := range pods {
		index := indexOf(p)
		for i := range p.Status.ContainerStatuses {
			s := &p.Status.ContainerStatuses[i]
			end := s.State.Terminated
			if end == nil {
				end = s.LastTerminationState.Terminated
			}
			if end == nil {
				continue
			}
			e := End{After: max(0, end.FinishedAt.Sub(end.StartedAt.Time)), Exit: int(end.ExitCode), OOM: end.Reason == "OOMKilled"}
			if end.StartedAt.Unix() <= 0 {
				e.After = 0 // it could not be started
			}
			nth := n + 1
			if index >= 0 {
				nth = seen[index] + 1
			}
			ends[key{index, nth, s.Name}] = e
			if e.Exit == 0 {
				successes = append(successes, e.After)
			}
		}
		seen[index]++
	}
	usual := Default
	if slices.Sort(successes); len(successes) > 0 {
		usual.After = successes[len(successes)/2]
	}
	return func(s Start) End {
		nth := s.Pod
		if s.Index >= 0 {
			nth = s.Number
		}
		if e, ok := ends[key{s.Index, nth, s.Container}]; ok {
			return e
		}
		return usual
	}
}
