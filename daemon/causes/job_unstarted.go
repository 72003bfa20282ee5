package causes

import (
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/daemon/exits"
	"github.com/jobd/jobd/daemon/job"
)

// holdingUp are the events that say why a container has not started. Each of those about images names the container.
var holdingUp = []string{
	"FailedScheduling", "Failed", "InspectFailed", "ErrImageNeverPull", "FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox",
	"FailedCreatePodContainer",
}

// LeavesNoPods reports whether a Job has ended in a way that deletes its pods, so that only their events say how far they had come.
func LeavesNoPods(j *batchv1.Job) bool {
	end := batch.End(&j.Status)
	return end != nil && end.Reason == batchv1.JobReasonDeadlineExceeded
}

// PodsOf returns the names of the pods that a Job has created, as its events tell them.
func PodsOf(events []corev1.Event) sets.Set[string] {
	names, created := sets.New[string](), job.Created("")
	for i := range events {
		if name, is := strings.CutPrefix(events[i].Message, created.Message); is && events[i].Reason == created.Reason {
			names.Insert(name)
		}
	}
	return names
}

// neverStarted returns the last event that says why no container of a Job has ever started, of one that its deadline has ended;
// nil if some has, or it is not known. More time is not what such a Job lacks.
func (v *jobView) neverStarted() *corev1.Event {
	if v.end == nil || !LeavesNoPods(v.job) || v.job.Status.Succeeded > 0 || v.job.Status.StartTime == nil || slices.ContainsFunc(v.pods, hasStarted) {
		return nil
	}
	var last *corev1.Event
	for i := range v.Events {
		e := &v.Events[i]
		about := e.InvolvedObject.Kind == "Pod" || e.InvolvedObject.UID == v.job.UID && e.Reason == "FailedCreate"
		if !about || core.LastSeen(e).Before(v.job.Status.StartTime.Time) {
			continue
		}
		if e.Reason == "Started" {
			return nil
		}
		// A kubelet's "Error: ErrImagePull" comes after the event that says more.
		says := e.Reason == "FailedCreate" || slices.Contains(holdingUp, e.Reason) && !strings.HasPrefix(e.Message, "Error: ")
		if says && (last == nil || !core.LastSeen(e).Before(core.LastSeen(last))) {
			last = e
		}
	}
	return last
}

// hasStarted reports whether some container of a pod has ever started.
func hasStarted(p *corev1.Pod) bool {
	for s := range podspec.Statuses(p) {
		end := s.State.Terminated
		if s.State.Running != nil || s.RestartCount > 0 || end != nil && end.StartedAt.Unix() > 0 { // 0 is of a StartError
			return true
		}
	}
	return false
}

// unstarted tells of the event, and of what helps.
func (v *jobView) unstarted(e *corev1.Event) why.Cause {
	words, _, _ := strings.Cut(e.Message, " preemption: ") // what follows is of no use on one machine
	c := why.Cause{
		Type: "NeverStarted", Since: why.At(core.LastSeen(e)), Details: map[string]string{"reason": e.Reason},
		Brief:   why.Clause("its pods never started: " + words),
		Message: fmt.Sprintf("None of its containers ever started, so more time alone does not help: %s", why.Sentence(words)),
	}
	var flags []string
	switch e.Reason {
	case "Failed", "InspectFailed", "ErrImageNeverPull":
		c.Message += " Another attempt needs that image imported, or the name of another one."
		flags = []string{"--image IMAGE"}
	case "FailedScheduling":
		c.Message += " Another attempt would wait in the same way until there is room for what it asks for."
		for resource, flag := range map[string]string{"cpu": "--cpu CPUS", "memory": "--memory MEMORY"} {
			if strings.Contains(words, "Insufficient "+resource) {
				flags = append(flags, flag)
			}
		}
		slices.Sort(flags)
	default:
		c.Message += " Another attempt helps once that is mended."
	}
	if len(flags) > 0 && v.retried() {
		c.Help = []string{v.retry(append(flags, v.ofContainer(e)...))}
	}
	return c
}

// ofContainer is the flag for the container that an event is about, if the pod has several.
func (v *jobView) ofContainer(e *corev1.Event) []string {
	spec := &v.job.Spec.Template.Spec
	if len(spec.Containers) == 1 && len(spec.InitContainers) == 0 {
		return nil
	}
	if _, name, found := strings.Cut(strings.TrimSuffix(e.InvolvedObject.FieldPath, "}"), "{"); found {
		return []string{"-c " + name}
	}
	return []string{"-c CONTAINER"}
}

// neverRan reports whether the program of a failed pod could not be executed: another attempt would only repeat that.
func (v *jobView) neverRan(p *corev1.Pod) bool {
	view := &podView{World: v.World, pod: p, job: v.job}
	for _, s := range view.statuses() {
		end := s.State.Terminated
		if end == nil || !podspec.HasFailed(&p.Spec, s.Name, end) {
			continue
		}
		c := view.ends().Cause(s.Name, end)
		c.Log = view.log(s.Name, false)
		exits.NotExecuted(&c)
		if c.Type == "NotExecutable" || c.Type == "StartError" && (exits.NotThere(end.Message) || exits.NotAllowed(end.Message)) {
			return true
		}
	}
	return false
}

// mostNeverRan reports whether the programs of at least half of the failed pods could not be executed.
func (v *jobView) mostNeverRan() bool {
	failed, n := v.failed(), 0
	for i, g := range groups(failed, wayToFail) {
		if i < shownKinds && v.neverRan(g.pods[0]) {
			n += len(g.pods)
		}
	}
	return n > 0 && 2*n >= len(failed)
}
