package causes

import (
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/daemon/job"
)

// retried reports whether the Job can begin another attempt. A JobSet would end that of one of its Jobs.
func (v *jobView) retried() bool {
	set, _ := batch.SetOf(v.job)
	return set == "" && v.end != nil && v.end.Type == batchv1.JobFailed && v.Source == why.FromRecords && job.Managed(v.job)
}

// retry is the command that begins another attempt with some flags.
func (v *jobView) retry(flags []string) string {
	return strings.Join(append([]string{"jobctl retry jobs/" + v.job.Name + why.InNamespace(v.job.Namespace)}, flags...), " ")
}

// neededByMost returns the flags without which at least half of the failures would only be repeated. Other failures are no
// reason to change the pods of all.
func (v *jobView) neededByMost() (flags []string) {
	if v.end.Reason == batchv1.JobReasonDeadlineExceeded {
		flags = append(flags, "--deadline 2x")
	}
	failed, needs, order := v.failed(), map[string]int{}, []string(nil)
	for _, p := range failed {
		for _, need := range v.needs(p) {
			if needs[need]++; needs[need] == 1 {
				order = append(order, need)
			}
		}
	}
	slices.Sort(order)
	for _, need := range order {
		if 2*needs[need] >= len(failed) {
			flags = append(flags, need)
		}
	}
	return flags
}

// needs returns the flags that the pod of the next attempt needs, not to fail as this one has.
func (v *jobView) needs(p *corev1.Pod) (flags []string) {
	if p.Status.Reason == "DeadlineExceeded" && v.job.Spec.Template.Spec.ActiveDeadlineSeconds != nil {
		return []string{"--pod-deadline 2x"} // how its containers have ended follows from that
	}
	for s := range podspec.Statuses(p) {
		end := s.State.Terminated
		if end == nil || end.Reason != "OOMKilled" {
			continue
		}
		// Without a limit of its own it was that of the pod, or the memory of the machine.
		c := podspec.Find(&p.Spec, s.Name)
		if c == nil || c.Resources.Limits.Memory().IsZero() {
			continue
		}
		flag := "--memory 2x"
		if len(p.Spec.Containers) > 1 || len(p.Spec.InitContainers) > 0 && c.Name != p.Spec.Containers[0].Name {
			flag += " -c " + c.Name
		}
		return append(flags, flag) // retry changes one container at a time
	}
	return flags
}
