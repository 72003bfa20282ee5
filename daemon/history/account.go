package history

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/runtime"
)

// Pod is what the containers of a pod have used that have ended.
type Pod struct {
	// Key is that of the pod's object, Of the UID of its Job.
	Key        string              `json:"key"`
	Of         string              `json:"of"`
	Containers []history.Container `json:"containers,omitempty"`
	// OOMPeaks has the memory, in bytes, of those that the kernel has killed for want of it, by name: that of the last
	// such end.
	OOMPeaks map[string]int64 `json:"oomPeaks,omitempty"`
}

// Fold takes in the ends of containers, each once, however often it is reported. It reports whether there was one.
func (p *Pod) Fold(observations []pod.Observation) (changed bool) {
	for i := range observations {
		o := &observations[i]
		if o.What != pod.Exited && o.What != pod.Lost {
			continue
		}
		at := slices.IndexFunc(p.Containers, func(c history.Container) bool { return c.Name == o.Container })
		if at < 0 {
			at = len(p.Containers)
			p.Containers = append(p.Containers, history.Container{Name: o.Container, Restarts: -1})
		}
		c := &p.Containers[at]
		if o.Attempt <= c.Restarts {
			continue
		}
		c.Restarts, c.ExitCode, c.Reason = o.Attempt, o.Status.ExitCode, reason(o)
		if o.What == pod.Lost {
			c.ExitCode = lostExitCode
		}
		c.Add(used(o.Status.Used))
		if o.Status.OOMKilled && o.Status.Used.PeakMemory > 0 {
			if p.OOMPeaks == nil {
				p.OOMPeaks = map[string]int64{}
			}
			p.OOMPeaks[o.Container] = o.Status.Used.PeakMemory
		}
		changed = true
	}
	return changed
}

// lostExitCode is the exit code in the status of a container of which it is not known how it ended.
const lostExitCode = 137

func reason(o *pod.Observation) string {
	switch {
	case o.What == pod.Lost:
		return "ContainerStatusUnknown"
	case o.Status.StartError != "":
		return "StartError"
	case o.Status.OOMKilled:
		return "OOMKilled"
	case o.Status.ExitCode != 0:
		return "Error"
	}
	return ""
}

// used returns figures as they are shown, to the millisecond: their digits are most of what is stored of a Job.
func used(u runtime.Used) history.Use {
	return history.Use{CPUSeconds: rounded(u.CPU.Seconds()), PeakMemory: u.PeakMemory}
}

func rounded(seconds float64) float64 { return math.Round(seconds*1000) / 1000 }

// End returns what is kept of a pod that has ended, or whose object is gone.
func (p *Pod) End(obj *corev1.Pod, now time.Time) history.Pod {
	end := history.Pod{
		Name: obj.Name, Index: obj.Annotations[batchv1.JobCompletionIndexAnnotation],
		Started: obj.Status.StartTime, Result: history.PodStopped, Reason: obj.Status.Reason, Containers: p.Containers,
	}
	switch {
	case obj.Status.Phase == corev1.PodSucceeded:
		end.Result = history.PodSucceeded
	case obj.Status.Phase == corev1.PodFailed && (obj.DeletionTimestamp == nil || disrupted(obj)):
		end.Result = history.PodFailed
	}
	for _, c := range p.Containers {
		end.Add(c.Use)
	}
	end.CPUSeconds = rounded(end.CPUSeconds)
	for _, list := range [][]corev1.ContainerStatus{obj.Status.InitContainerStatuses, obj.Status.ContainerStatuses} {
		for i := range list {
			if t := list[i].State.Terminated; t != nil && t.FinishedAt.After(end.Ended.Time) {
				end.Ended = t.FinishedAt
			}
		}
	}
	if end.Ended.IsZero() {
		end.Ended = second(now)
	}
	switch c := deciding(obj, p.Containers); {
	case end.Result == history.PodSucceeded:
		end.ExitCode = new(int)
	case end.Result == history.PodFailed && c != nil:
		end.ExitCode, end.Reason = &c.ExitCode, cmp.Or(end.Reason, c.Reason)
	}
	return end
}

func second(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }

// disrupted reports whether something else than the pod itself, or its Job, has ended it.
func disrupted(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue
	})
}

// deciding returns the container of a pod that has failed last, nil if none has. Nothing depends on ephemeral ones.
func deciding(p *corev1.Pod, containers []history.Container) *history.Container {
	for i := range slices.Backward(containers) {
		c := &containers[i]
		ephemeral := slices.ContainsFunc(p.Spec.EphemeralContainers, func(e corev1.EphemeralContainer) bool { return e.Name == c.Name })
		if !ephemeral && (c.ExitCode != 0 || c.Reason != "") {
			return c
		}
	}
	return nil
}

// maxPods is how many pods are kept with a Job itself. The rest is in parts.
const maxPods = 20

// Account is what is known of a Job before its end.
type Account struct {
	// Job has the sums, and the pods that have ended since the last part.
	Job history.Job `json:"job"`
	// Failures and Restarts count what may turn out to be retries.
	Failures int `json:"failures,omitempty"`
	Restarts int `json:"restarts,omitempty"`
	// Gone: the object of the Job was deleted, and the account is open until its pods have ended.
	Gone bool `json:"gone,omitempty"`
}

// Describe takes in what the object of the Job says of itself, and who has created it.
func (a *Account) Describe(j *batchv1.Job, user string) {
	a.Job.Namespace, a.Job.Name, a.Job.UID, a.Job.Labels = j.Namespace, j.Name, string(j.UID), boundedLabels(j.Labels)
	a.Job.User = user
	a.Job.Created, a.Job.Started = j.CreationTimestamp, j.Status.StartTime
	if owner := metav1.GetControllerOfNoCopy(j); owner != nil && owner.Kind == "CronJob" {
		a.Job.CronJob = owner.Name
	}
}

// maxLabels is how many bytes of labels are kept of a Job. The history of all shares its size.
const maxLabels = 4 << 10

// boundedLabels returns the labels if they are not too long, else none.
func boundedLabels(labels map[string]string) map[string]string {
	size := 0
	for key, value := range labels {
		size += len(key) + len(value)
	}
	if size > maxLabels {
		return nil
	}
	return labels
}

// Add adds a pod that has ended. If there are many pods by now, it returns a part of the history to be kept.
func (a *Account) Add(p history.Pod) (part *history.Job) {
	j := &a.Job
	j.Add(p.Use)
	j.CPUSeconds = rounded(j.CPUSeconds)
	switch p.Result {
	case history.PodSucceeded:
		j.Succeeded++
	case history.PodFailed:
		j.Failed++
		a.Failures++
	default:
		j.Stopped++
	}
	if p.ExitCode != nil {
		j.ExitCodes = count(j.ExitCodes, *p.ExitCode)
	}
	for _, c := range p.Containers {
		a.Restarts += max(0, c.Restarts)
	}
	j.Pods = append(j.Pods, p)
	if len(j.Pods) < maxPods {
		return nil
	}
	part = &history.Job{
		Namespace: j.Namespace, Name: j.Name, UID: j.UID, Created: j.Created, Ended: p.Ended, Part: true, Pods: j.Pods,
	}
	j.Pods = nil
	return part
}

// maxCodes bounds how many different exit codes are counted.
const maxCodes = 20

func count(codes []history.ExitCode, code int) []history.ExitCode {
	i := slices.IndexFunc(codes, func(c history.ExitCode) bool { return c.Code == code })
	switch {
	case i >= 0:
		codes[i].Count++
	case len(codes) < maxCodes:
		codes = append(codes, history.ExitCode{Code: code, Count: 1})
	}
	slices.SortStableFunc(codes, func(a, b history.ExitCode) int { return cmp.Compare(b.Count, a.Count) })
	return codes
}

// Close returns what is kept of a Job that has ended with a status, or, with nil, has been deleted before.
func (a *Account) Close(j *batchv1.Job, status *batchv1.JobStatus, now time.Time) history.Job {
	end := a.Job
	end.Result, end.Ended = history.Deleted, second(now)
	final := 0 // failures after which nothing was run again
	if status != nil {
		end.Started = status.StartTime
		if c := batch.End(status); c != nil {
			end.Ended, end.Reason, end.Result = c.LastTransitionTime, c.Reason, history.Complete
			if c.Type == batchv1.JobFailed {
				end.Result, final = history.Failed, 1
			}
		}
		if j != nil && j.Spec.BackoffLimitPerIndex != nil {
			n := ptr.Deref(j.Spec.Completions, 0)
			final = job.ParseIndexes(ptr.Deref(status.FailedIndexes, ""), n).Len()
		}
	}
	end.Retries = max(0, a.Failures-final) + a.Restarts
	return end
}

// DecodePod reads what is stored of a pod.
func DecodePod(value []byte) (*Pod, error) { return decode[Pod](value) }

// DecodeAccount reads a stored account.
func DecodeAccount(value []byte) (*Account, error) { return decode[Account](value) }

func decode[T any](value []byte) (*T, error) {
	v := new(T)
	if err := json.Unmarshal(value, v); err != nil {
		return nil, fmt.Errorf("accounting: %w", err)
	}
	return v, nil
}
