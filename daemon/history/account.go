package history

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	podresource "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	wire "github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/runtime"
)

// Pod is what the containers of a pod have used that have ended.
type Pod struct {
	// Key is that of the pod's object, Of the UID of its Job.
	Key        string           `json:"key"`
	Of         string           `json:"of"`
	Containers []wire.Container `json:"containers,omitempty"`
	// OOMPeaks has the memory, in bytes, of those that the kernel has killed for want of it, by name: that of the last
	// such end.
	OOMPeaks map[string]int64 `json:"oomPeaks,omitempty"`
}

// Fold takes in the ends of containers, each once, however often it is reported. It reports whether there was one.
func (p *Pod) Fold(observations []duty.Observation) (changed bool) {
	for i := range observations {
		o := &observations[i]
		if held := o.What == duty.Held && o.Status.State == runtime.Exited; !held && o.What != duty.Exited && o.What != duty.Lost {
			continue
		}
		at := slices.IndexFunc(p.Containers, func(c wire.Container) bool { return c.Name == o.Container })
		if at < 0 {
			at = len(p.Containers)
			p.Containers = append(p.Containers, wire.Container{Name: o.Container, Restarts: -1})
		}
		c := &p.Containers[at]
		if o.Attempt <= c.Restarts {
			continue
		}
		c.Restarts, c.ExitCode, c.Reason = o.Attempt, o.Status.ExitCode, reason(o)
		if o.What == duty.Lost {
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

// lostExitCode is the exit code in the status of a container when nobody knows how it ended.
const lostExitCode = 137

func reason(o *duty.Observation) string {
	switch {
	case o.What == duty.Lost:
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
func used(u runtime.Used) wire.Use {
	return wire.Use{CPUSeconds: rounded(u.CPU.Seconds()), PeakMemory: u.PeakMemory}
}

func rounded(seconds float64) float64 { return math.Round(seconds*1000) / 1000 }

// End returns what is kept of a pod that has ended, or whose object is gone.
func (p *Pod) End(obj *corev1.Pod, now time.Time) wire.Pod {
	end := wire.Pod{
		Name: obj.Name, Index: obj.Annotations[batchv1.JobCompletionIndexAnnotation],
		Started: obj.Status.StartTime, Result: wire.PodStopped, Reason: boundedReason(obj.Status.Reason), Containers: p.Containers,
	}
	switch {
	case obj.Status.Phase == corev1.PodSucceeded:
		end.Result = wire.PodSucceeded
	case obj.Status.Phase == corev1.PodFailed && (obj.DeletionTimestamp == nil || disrupted(obj)):
		end.Result = wire.PodFailed
	}
	for _, c := range p.Containers {
		end.Add(c.Use)
	}
	end.CPUSeconds = rounded(end.CPUSeconds)
	for s := range podspec.Statuses(obj) {
		if t := s.State.Terminated; t != nil && t.FinishedAt.After(end.Ended.Time) {
			end.Ended = t.FinishedAt
		}
	}
	if end.Ended.IsZero() {
		end.Ended = second(now)
	}
	if paused := core.PausedUntil(obj, end.Ended.Time); end.Started != nil {
		end.PausedSeconds = rounded(min(paused, max(0, end.Ended.Sub(end.Started.Time))).Seconds())
	}
	for i := range end.Containers {
		if c := podspec.Find(&obj.Spec, end.Containers[i].Name); c != nil {
			end.Containers[i].Asked = asked(c.Resources.Requests, c.Resources.Limits)
		}
	}
	end.Message = podspec.TerminationMessage(obj)
	switch c := deciding(obj, p.Containers); {
	case end.Result == wire.PodSucceeded:
		end.ExitCode = new(int)
	case end.Result == wire.PodFailed && c != nil:
		end.ExitCode, end.Reason = &c.ExitCode, cmp.Or(end.Reason, c.Reason)
	case end.Result == wire.PodStopped:
		if t := failedBefore(obj); t != nil {
			code := int(t.ExitCode)
			end.ExitCode, end.Reason, end.Message = &code, cmp.Or(end.Reason, t.Reason), cmp.Or(end.Message, t.Message)
		}
	}
	return end
}

// failedBefore returns how a container of a pod has failed last before it was started again, or was to be; nil if none has. How the attempt
// after that has ended says nothing of a pod that was stopped.
func failedBefore(obj *corev1.Pod) (last *corev1.ContainerStateTerminated) {
	for s := range podspec.Statuses(obj) {
		t, c := s.LastTerminationState.Terminated, podspec.Find(&obj.Spec, s.Name)
		if t == nil && s.RestartCount > 0 { // it waited to be started again, and its last state became the final one
			t = s.State.Terminated
		}
		if t == nil || !podspec.HasFailed(&obj.Spec, s.Name, t) ||
			c != nil && podspec.IsSidecar(c) || last != nil && !last.FinishedAt.Before(&t.FinishedAt) {
			continue
		}
		last = t
	}
	return last
}

// endsFor reports whether a Job has ended, or is about to, for a reason.
func endsFor(j *batchv1.Job, reason string) bool {
	c := cmp.Or(batch.End(&j.Status), batch.Ending(&j.Status))
	return c != nil && c.Reason == reason
}

// GPUs is what a pod has had of GPUs.
type GPUs struct {
	Count float64       // how many it requests: a share is a part of one
	Busy  time.Duration // of all together
	Peak  int64         // the most of their memory, in bytes
}

// had takes in what a pod that has ended has had of GPUs, which are its own while it is paused, too.
func (g GPUs) had(end *wire.Pod) {
	if g.Count == 0 || end.Started == nil {
		return
	}
	end.GPUSeconds = rounded(g.Count * max(0, end.Ended.Sub(end.Started.Time).Seconds()))
	end.GPUBusySeconds, end.PeakGPUMemory = rounded(g.Busy.Seconds()), g.Peak
}

// boundedValues returns the values of an index if they are not too long, else none.
func boundedValues(values []batch.IndexValue) []batch.IndexValue {
	size := 0
	for _, v := range values {
		size += len(v.Name) + len(v.Value)
	}
	if size > maxPodValues {
		return nil
	}
	return values
}

// asked returns what is asked for by requests and limits.
func asked(requests, limits corev1.ResourceList) wire.Resources {
	return wire.Resources{
		CPURequest: cpus(requests), CPULimit: cpus(limits),
		MemoryRequest: podspec.Amount(requests[corev1.ResourceMemory]), MemoryLimit: podspec.Amount(limits[corev1.ResourceMemory]),
	}
}

func cpus(of corev1.ResourceList) float64 {
	return float64(podspec.MilliAmount(of[corev1.ResourceCPU])) / 1000
}

// askedByPod returns what a pod asks for, as the machine counts it.
func askedByPod(obj *corev1.Pod) wire.Resources {
	o := podresource.PodResourcesOptions{}
	return asked(podresource.PodRequests(obj, o), podresource.PodLimits(obj, o))
}

// memoryOf returns the most memory that a pod had at a time, as far as the peaks of its containers tell: init containers run
// one after the other, and before those that run together.
func memoryOf(obj *corev1.Pod, containers []wire.Container) (most int64) {
	var together int64
	for _, c := range containers {
		if slices.ContainsFunc(obj.Spec.InitContainers, func(i corev1.Container) bool { return i.Name == c.Name && !podspec.IsSidecar(&i) }) {
			most = max(most, c.PeakMemory)
		} else {
			together = podspec.Add(together, c.PeakMemory)
		}
	}
	return max(most, together)
}

func second(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }

// disrupted reports whether something else than the pod itself, or its Job, has ended it.
func disrupted(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue
	})
}

// deciding returns the container of a pod that has failed last, nil if none has. Nothing depends on ephemeral ones.
func deciding(p *corev1.Pod, containers []wire.Container) *wire.Container {
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

const (
	// maxMessages is how many bytes of termination messages are kept of a Job, and maxPodValues of the values of an index.
	maxMessages  = 1 << 20
	maxPodValues = 1 << 10
)

// Account is what is known of a Job before its end.
type Account struct {
	// Job has the sums, and the pods that have ended since the last part.
	Job wire.Job `json:"job"`
	// Failures and Restarts count what may turn out to be retries.
	Failures int `json:"failures,omitempty"`
	Restarts int `json:"restarts,omitempty"`
	// Messages is how many bytes the termination messages of pods have that are kept.
	Messages int `json:"messages,omitempty"`
	// Gone: the object of the Job was deleted, and the account is open until its pods have ended.
	Gone bool `json:"gone,omitempty"`
}

// Describe takes in what the object of the Job says of itself at a time, the UID of its namespace, and who has created the Job.
func (a *Account) Describe(j *batchv1.Job, namespace types.UID, user string, now time.Time) {
	a.Job.Namespace, a.Job.Name, a.Job.UID, a.Job.Labels = j.Namespace, j.Name, string(j.UID), boundedLabels(j.Labels)
	a.Job.GenerateName = boundedPrefix(j)
	a.Job.NamespaceUID, a.Job.User = string(namespace), user
	a.Job.Created, a.Job.Started = j.CreationTimestamp, j.Status.StartTime
	a.Job.PausedSeconds = rounded(batch.PausedUntil(j, now).Seconds())
	if cronJob, _ := batch.CronJobOf(j); cronJob != "" {
		a.Job.CronJob = cronJob
	}
	if !job.Managed(j) {
		a.Job.ManagedBy = *j.Spec.ManagedBy
	}
	a.Job.Reason = ""
	if m := batch.MovingOf(j.Annotations); m != nil { // all that says later why it was deleted
		a.Job.Reason = boundedReason("on its move to " + m.To)
	}
}

// maxLabels is how many bytes of labels are kept of a Job. The history of all shares its size.
const maxLabels = 4 << 10

// maxReason is how many bytes of a reason are kept, which is a word, but for what writes a status in place of jobd.
const maxReason = 256

func boundedReason(reason string) string {
	if len(reason) > maxReason {
		return strings.ToValidUTF8(reason[:maxReason], "")
	}
	return reason
}

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

// boundedPrefix returns what the name of a Job was generated from. A client may write anything there: what does not begin the
// name is nothing that its runs have in common.
func boundedPrefix(j *batchv1.Job) string {
	if !strings.HasPrefix(j.Name, j.GenerateName) {
		return ""
	}
	return j.GenerateName
}

// Asks adds what a pod that has ended has asked for, and what it has used of that.
func (a *Account) Asks(obj *corev1.Pod, end *wire.Pod) {
	a.Job.Asked.Most(askedByPod(obj))
	a.Job.PodMemory = max(a.Job.PodMemory, memoryOf(obj, end.Containers))
	a.Job.PodSeconds += end.Ran().Seconds()
}

// Add adds a pod that has ended. If there are many pods by now, it returns a part of the history to be kept.
func (a *Account) Add(p wire.Pod) (part *wire.Job) {
	j := &a.Job
	j.Add(p.Use)
	j.CPUSeconds, j.GPUSeconds, j.GPUBusySeconds = rounded(j.CPUSeconds), rounded(j.GPUSeconds), rounded(j.GPUBusySeconds)
	switch p.Result {
	case wire.PodSucceeded:
		j.Succeeded++
	case wire.PodFailed:
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
	if a.Messages+len(p.Message) > maxMessages {
		p.Message = ""
		j.MessagesLeftOut++
	}
	a.Messages += len(p.Message)
	j.Pods = append(j.Pods, p)
	if len(j.Pods) < maxPods {
		return nil
	}
	part = &wire.Job{
		Namespace: j.Namespace, NamespaceUID: j.NamespaceUID, Name: j.Name, UID: j.UID, Created: j.Created, Ended: p.Ended, Part: true, Pods: j.Pods,
	}
	j.Pods = nil
	return part
}

// maxCodes bounds how many different exit codes are counted.
const maxCodes = 20

func count(codes []wire.ExitCode, code int) []wire.ExitCode {
	i := slices.IndexFunc(codes, func(c wire.ExitCode) bool { return c.Code == code })
	switch {
	case i >= 0:
		codes[i].Count++
	case len(codes) < maxCodes:
		codes = append(codes, wire.ExitCode{Code: code, Count: 1})
	}
	slices.SortStableFunc(codes, func(a, b wire.ExitCode) int { return cmp.Compare(b.Count, a.Count) })
	return codes
}

// Close returns what is kept of a Job that has ended with a status, or, with nil, has been deleted before.
func (a *Account) Close(j *batchv1.Job, status *batchv1.JobStatus, now time.Time) wire.Job {
	end := a.Job
	end.Result, end.Ended = wire.Deleted, second(now)
	final := 0 // failures after which nothing was run again
	if status != nil {
		end.Started = status.StartTime
		if c := batch.End(status); c != nil {
			end.Ended, end.Reason, end.Result = c.LastTransitionTime, boundedReason(c.Reason), wire.Complete
			if c.Type == batchv1.JobFailed {
				end.Result, final = wire.Failed, 1
			}
		}
		if end.ManagedBy != "" { // none of its pods has run here
			end.Succeeded, end.Failed = max(0, int(status.Succeeded)), max(0, int(status.Failed))
		}
		if j != nil { // the pause that it was in is over with that status
			end.PausedSeconds = rounded(batch.PausedFor(j.Annotations).Seconds())
		}
		if j != nil && j.Spec.BackoffLimitPerIndex != nil {
			n := ptr.Deref(j.Spec.Completions, 0)
			final = job.ParseIndexes(ptr.Deref(status.FailedIndexes, ""), n).Len()
		}
	}
	if end.PodMemory <= end.PeakMemory { // as of pods of one container: their digits are much of what is stored
		end.PodMemory = 0
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
