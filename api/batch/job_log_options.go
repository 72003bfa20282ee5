package batch

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/jobd/jobd/api/podspec"
)

// JobLogOptions holds the parameters of GET .../jobs/NAME/log: those of a pod's log, which apply to the log of each
// pod, and some that make sense only for several logs. The endpoint is jobd's own; clusters have no log of a Job.
type JobLogOptions struct {
	metav1.TypeMeta `json:",inline"`

	Container     string       `json:"container,omitempty"`
	AllContainers bool         `json:"allContainers,omitempty"`
	Follow        bool         `json:"follow,omitempty"`
	Previous      bool         `json:"previous,omitempty"`
	AllRestarts   bool         `json:"allRestarts,omitempty"`
	SinceSeconds  *int64       `json:"sinceSeconds,omitempty"`
	SinceTime     *metav1.Time `json:"sinceTime,omitempty"`
	Timestamps    bool         `json:"timestamps,omitempty"`
	TailLines     *int64       `json:"tailLines,omitempty"`
	LimitBytes    *int64       `json:"limitBytes,omitempty"`
	Stream        string       `json:"stream,omitempty"`
	Prefix        bool         `json:"prefix,omitempty"`
	Missing       bool         `json:"missing,omitempty"`
}

// SwaggerDoc returns the description of each parameter.
func (JobLogOptions) SwaggerDoc() map[string]string {
	return map[string]string{
		"container": "The container whose log is wanted. Defaults to the one that the annotation " +
			"kubectl.kubernetes.io/default-container of the Job's template names, or the first.",
		"allContainers": "The logs of all containers of each pod.",
		"follow":        "Go on with what is written, by pods that are yet to come too, until the Job has finished.",
		"previous":      "Of each container the attempt before the last.",
		"allRestarts":   "Of each container the logs from before each of its restarts too, as far as they are kept, not the last alone.",
		"sinceSeconds":  "Only what was written in the last seconds.",
		"sinceTime":     "Only what was written since then (RFC3339).",
		"timestamps":    "The time of writing (RFC3339) before each line.",
		"tailLines":     "The last lines of the whole log alone: those that were written last, whichever pods they are from.",
		"limitBytes":    "End after so many bytes.",
		"stream":        "All, Stdout or Stderr. Defaults to All.",
		"prefix":        "Before each line the pod, the container, the pod's index if it has one, the attempt, and the stream that it was written to.",
		"missing": "A line where something was rotated away before it could be read, with how much that was. It has a " +
			"prefix in any case, with the word missing in place of a stream, and no time.",
	}
}

// DeepCopyObject implements runtime.Object.
func (o *JobLogOptions) DeepCopyObject() runtime.Object {
	c := *o
	for _, n := range []**int64{&c.SinceSeconds, &c.TailLines, &c.LimitBytes} {
		if *n != nil {
			v := **n
			*n = &v
		}
	}
	c.SinceTime = o.SinceTime.DeepCopy()
	return &c
}

// Pod returns the options that also apply to the log of a pod.
func (o *JobLogOptions) Pod() *corev1.PodLogOptions {
	p := &corev1.PodLogOptions{
		Container: o.Container, Follow: o.Follow, Previous: o.Previous, SinceSeconds: o.SinceSeconds,
		SinceTime:  o.SinceTime,
		Timestamps: o.Timestamps, TailLines: o.TailLines, LimitBytes: o.LimitBytes,
	}
	if o.Stream != "" {
		p.Stream = &o.Stream
	}
	return p
}

// LogContainers returns the names of the containers of a Job's pods, init containers first.
func LogContainers(j *batchv1.Job) (names []string) {
	spec := &j.Spec.Template.Spec
	for c := range podspec.Containers(spec) {
		names = append(names, c.Name)
	}
	return names
}

// DefaultContainerAnnotation names the container that kubectl uses when the user names none.
const DefaultContainerAnnotation = "kubectl.kubernetes.io/default-container"

// Containers returns the names of the containers whose logs are wanted.
func (o *JobLogOptions) Containers(j *batchv1.Job) []string {
	all := LogContainers(j)
	chosen := j.Spec.Template.Annotations[DefaultContainerAnnotation]
	switch {
	case o.AllContainers:
		return all
	case o.Container != "":
		return []string{o.Container}
	case slices.Contains(all, chosen):
		return []string{chosen}
	}
	return []string{j.Spec.Template.Spec.Containers[0].Name}
}
