// Package history is the format in which jobd says what Jobs have run, and what they have used:
// GET /apis/history.jobd.dev/v1/jobs and .../namespaces/NAMESPACE/jobs, which only jobd has, answer with a List as JSON.
//
// A Job is listed when it has ended, and stays listed after its object is gone. Programs can rely on the fields; further
// ones may be added within the version.
package history

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/batch"
)

// Group, Version and Kind are those of a List.
const (
	Group   = "history.jobd.dev"
	Version = "v1"
	Kind    = "JobHistoryList"
)

// Path returns the path of the requests about one namespace, or about all of them if it is empty.
func Path(namespace string) string {
	if namespace == "" {
		return "/apis/" + Group + "/" + Version + "/jobs"
	}
	return "/apis/" + Group + "/" + Version + "/namespaces/" + namespace + "/jobs"
}

// Parameters of a request, all of them optional.
const (
	// ParameterLimit is how many Jobs the answer has at most; at most MaxLimit, which is also what is meant without it.
	ParameterLimit = "limit"
	// ParameterContinue is what an answer said in metadata.continue: the next one goes on there.
	ParameterContinue = "continue"
	// ParameterLabels is a label selector.
	ParameterLabels = "labelSelector"
	// ParameterName, ParameterCronJob and ParameterUser are the name of the Job, the CronJob that started it, and who
	// created it.
	ParameterName    = "name"
	ParameterCronJob = "cronJob"
	ParameterUser    = "user"
	// ParameterGenerateName is what the name of the Job was generated from (metadata.generateName). Jobs that ended before jobd
	// kept that are not found.
	ParameterGenerateName = "generateName"
	// ParameterJobSet asks for the ends of a JobSet of that name instead of Jobs. Of one that ended before jobd kept that there are none.
	ParameterJobSet = "jobSet"
	// ParameterSince, in the form of RFC 3339, leaves out what has ended before.
	ParameterSince = "since"
	// ParameterPods adds what each pod has used: "true" or "false".
	ParameterPods = "pods"
)

// MaxLimit is how many Jobs an answer has at most.
const MaxLimit = 500

// List is an answer: the Jobs that ended last come first.
type List struct {
	metav1.TypeMeta `json:",inline"`
	// Metadata.Continue is set if there are, or may be, more. Such an answer may have fewer Jobs than the limit, even
	// none.
	Metadata metav1.ListMeta `json:"metadata"`
	Items    []Job           `json:"items"`
}

// KindJobSet is the Kind of the end of a JobSet.
const KindJobSet = "JobSet"

// Results of a Job.
const (
	Complete = "Complete"
	Failed   = "Failed"
	// Deleted: its object was deleted before it had finished.
	Deleted = "Deleted"
)

// Job is a Job that has ended. One that was made to run again, and has ended again, is listed for each end.
type Job struct {
	Namespace string `json:"namespace"`
	// NamespaceUID is that of the namespace: a later one of the same name has another. Empty: that is not known.
	NamespaceUID string `json:"namespaceUID,omitempty"`
	Name         string `json:"name"`
	// GenerateName is what the name was generated from, if it was.
	GenerateName string `json:"generateName,omitempty"`
	UID          string `json:"uid"`
	// Kind is JobSet of the end of a JobSet, which has used nothing itself; empty: it is a Job.
	Kind string `json:"kind,omitempty"`
	// User is who created the Job or, of a Job of a CronJob, the CronJob. Empty: that is not known.
	User    string `json:"user,omitempty"`
	CronJob string `json:"cronJob,omitempty"`
	// ManagedBy is the controller that has run the Job (spec.managedBy), if that is not jobd.
	ManagedBy string            `json:"managedBy,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`

	Created metav1.Time  `json:"created"`
	Started *metav1.Time `json:"started,omitempty"` // status.startTime
	Ended   metav1.Time  `json:"ended"`
	// PausedSeconds is for how much of the time from its start to its end it was paused.
	PausedSeconds float64 `json:"pausedSeconds,omitempty"`
	// Result is Complete, Failed or Deleted; Reason is that of the Job's condition.
	Result string `json:"result"`
	Reason string `json:"reason,omitempty"`

	Use `json:",inline"`
	// Asked is what one pod of it asked for; where they differ, as after an out-of-memory retry, the most that one did. It is
	// missing of Jobs that ended before jobd kept it, as PodMemory and PodSeconds are.
	Asked Resources `json:"asked,omitzero"`
	// PodMemory is the most memory that one pod had, in bytes: the sum of the peaks of its containers, which need not have been at
	// the same time. 0: not more than PeakMemory.
	PodMemory int64 `json:"podMemory,omitempty"`
	// PodSeconds is for how long pods ran, all together, without the time in which they were paused.
	PodSeconds float64 `json:"podSeconds,omitempty"`
	// Succeeded, Failed and Stopped count the pods that ran, by their results.
	Succeeded int `json:"succeeded,omitempty"`
	Failed    int `json:"failed,omitempty"`
	Stopped   int `json:"stopped,omitempty"`
	// Retries is how often something of the Job was run again: pods that have replaced failed ones, and restarts of
	// containers within pods.
	Retries int `json:"retries,omitempty"`
	// ExitCodes are those of the pods, the most frequent first.
	ExitCodes []ExitCode `json:"exitCodes,omitempty"`

	// MessagesLeftOut is of how many pods the termination message is not kept, since those before were too long in all.
	MessagesLeftOut int `json:"messagesLeftOut,omitempty"`

	// Pods are in the order of their ends, if they were asked for.
	Pods []Pod `json:"pods,omitempty"`
	// Part: this is no Job, but more Pods of the Job with the same UID that is the last one before it in the answers.
	Part bool `json:"part,omitempty"`
}

// Use is what something has used from its start to its end.
type Use struct {
	// CPUSeconds is the time on processors.
	CPUSeconds float64 `json:"cpuSeconds"`
	// PeakMemory is the most memory that one container had at a time, with the page cache, in bytes. 0: not known.
	PeakMemory int64 `json:"peakMemory"`
	// GPUSeconds is for how long it had GPUs, one second for each; a share of a GPU counts for its part. Of that they were busy for
	// GPUBusySeconds, and PeakGPUMemory is the most of their memory that one pod had, in bytes, as far as somebody looked: every few
	// seconds, at GPUs of NVIDIA. How busy a GPU is with each of those that share it nobody knows.
	GPUSeconds     float64 `json:"gpuSeconds,omitempty"`
	GPUBusySeconds float64 `json:"gpuBusySeconds,omitempty"`
	PeakGPUMemory  int64   `json:"peakGPUMemory,omitempty"`
}

// Add adds what something else has used.
func (u *Use) Add(v Use) {
	u.CPUSeconds += v.CPUSeconds
	u.PeakMemory = max(u.PeakMemory, v.PeakMemory)
	u.GPUSeconds += v.GPUSeconds
	u.GPUBusySeconds += v.GPUBusySeconds
	u.PeakGPUMemory = max(u.PeakGPUMemory, v.PeakGPUMemory)
}

// Resources are what a pod or a container asks for. 0: it does not ask for any, or has no limit.
type Resources struct {
	CPURequest    float64 `json:"cpuRequest,omitempty"` // in CPUs
	CPULimit      float64 `json:"cpuLimit,omitempty"`
	MemoryRequest int64   `json:"memoryRequest,omitempty"` // in bytes
	MemoryLimit   int64   `json:"memoryLimit,omitempty"`
}

// Most takes what others ask for where that is more.
func (r *Resources) Most(o Resources) {
	r.CPURequest, r.CPULimit = max(r.CPURequest, o.CPURequest), max(r.CPULimit, o.CPULimit)
	r.MemoryRequest, r.MemoryLimit = max(r.MemoryRequest, o.MemoryRequest), max(r.MemoryLimit, o.MemoryLimit)
}

// ExitCode is an exit code, and how many pods had it.
type ExitCode struct {
	Code  int `json:"code"`
	Count int `json:"count"`
}

// Pod is a pod that has ended.
type Pod struct {
	Name    string       `json:"name"`
	Index   string       `json:"index,omitempty"` // the completion index of an Indexed Job
	Started *metav1.Time `json:"started,omitempty"`
	Ended   metav1.Time  `json:"ended"`
	// PausedSeconds is for how much of the time from its start to its end its containers were frozen.
	PausedSeconds float64 `json:"pausedSeconds,omitempty"`
	// Result is Succeeded, Failed or Stopped; Reason is that of the pod or of the container that has failed.
	Result string `json:"result"`
	Reason string `json:"reason,omitempty"`
	// ExitCode is 0 if the pod has succeeded. If it has failed, it is the exit code of the container that failed last. If it
	// was stopped, or its Job has given it up (restartPolicy OnFailure), it is that of the last failure after which a container
	// was restarted. Nil: no container has ended by itself.
	ExitCode *int `json:"exitCode,omitempty"`
	// Values are those of its index (jobd.dev/index-env, jobd.dev/array), unless they are long.
	Values []batch.IndexValue `json:"values,omitempty"`
	// Message is the termination message of the container that has failed, else of the first that has one. It is missing if those of the
	// Job are too long in all (Job.MessagesLeftOut).
	Message string `json:"message,omitempty"`

	Use        `json:",inline"`
	Containers []Container `json:"containers,omitempty"`
}

// Ran returns for how long a pod ran, without the time in which it was paused; 0 if it has not started.
func (p *Pod) Ran() time.Duration {
	if p.Started == nil {
		return 0
	}
	return max(0, p.Ended.Sub(p.Started.Time)-p.Paused())
}

// Paused returns PausedSeconds.
func (p *Pod) Paused() time.Duration { return duration(p.PausedSeconds) }

// Paused returns PausedSeconds.
func (j *Job) Paused() time.Duration { return duration(j.PausedSeconds) }

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// Results of a pod.
const (
	PodSucceeded = "Succeeded"
	PodFailed    = "Failed"
	// PodStopped: it was deleted before it had ended, by somebody or with its Job, but not by a Job that gives up its restarts.
	PodStopped = "Stopped"
)

// Container is a container of a pod that has been started. The exit code and the reason are those of its last end.
type Container struct {
	Name     string `json:"name"`
	ExitCode int    `json:"exitCode"`
	Reason   string `json:"reason,omitempty"`
	Restarts int    `json:"restarts,omitempty"`

	Use `json:",inline"`
	// Asked is what it asked for.
	Asked Resources `json:"asked,omitzero"`
}
