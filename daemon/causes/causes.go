// Package causes says why a Job or a pod is in the state that it is in; package parents says it of what makes Jobs.
//
// In come objects, events, and what the controllers know beside them (World). Out goes an Explanation of api/why.
// Everything here is a pure function of that, so the same functions explain what the daemon decides by, and what can be
// seen of a real cluster through its API. A new cause is one new function and one line in a list, once
// World knows what it follows from (CONTRIBUTING: "Add a cause to why").
package causes

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/forecast"
	"github.com/jobd/jobd/api/gpus"
	"github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/daemon/dependents"
	"github.com/jobd/jobd/daemon/hold"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/notify"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/daemon/prospect"
)

// World is what is known beside the object that is asked about. Where only a cluster's API can be asked, the maps are
// nil.
type World struct {
	Now time.Time
	// Source is why.FromRecords or why.FromAPI.
	Source string
	// Events are those of the object and its pods.
	Events []corev1.Event

	// Node is the name of this machine; empty for a cluster.
	Node string
	// Pressed is why the machine takes no pods for want of disk or memory, by the taints that keep them away.
	Pressed map[string]Pressure

	// TTL is that of Jobs that have none.
	TTL job.TTL

	// Claims are the claims that pods wait for.
	Claims map[types.UID]ClaimWait
	// Rooms are what waiting pods wait for. Of the pods of a Job there may be only the first in the queue.
	Rooms map[types.UID]prospect.Room
	// Holders are the pods on the node that hold what others wait for, and the one for which room is kept. Those that the client may not
	// see are missing.
	Holders map[types.UID]Holder
	// Launchings are launches that have failed, by pod.
	Launchings map[types.UID][]pod.Launching
	// Standing is what decisions about the Job depend on; nil if it has ended.
	Standing *job.Standing
	// Forecast is when the Job is expected to start and to end; nil if nobody was asked.
	Forecast *forecast.Forecast
	// Dependents are those for which the deletion of the object waits.
	Dependents dependents.Dependents
	// Values are those of the Job's indexes (batch.IndexEnvAnnotation); nil if there are none.
	Values *batch.IndexValues
	// Needs are the Jobs for which the Job waits, and how they stand.
	Needs []hold.Need
	// Group is what the Job waits for that has no place in its concurrency group; nil if it does not.
	Group *hold.Wait
	// Expected is what is expected of the Job's name; nil for nothing.
	Expected *notify.Memory
	// ScheduledSince is since when the schedule of the CronJob is what it is; zero for always.
	ScheduledSince time.Time

	// InUse returns the devices of a kind that other programs than pods use, and as far as the client may know them the processes. looked is
	// false as long as nobody has looked. Nil: nobody looks.
	InUse func(kind corev1.ResourceName) (used []gpus.GPU, looked bool)
	// Missing reports whether there is no object of a kind (ConfigMap, Secret, PersistentVolumeClaim) in a namespace. known is
	// false if that cannot be found out.
	Missing func(kind, namespace, name string) (missing, known bool)
	// Forwarder reports whether a forwarder serves a cluster (jobd forward). known is false if that cannot be found out. Nil: nobody knows.
	Forwarder func(cluster string) (served, known bool)
	// Claim returns a PersistentVolumeClaim and the last event about it; nil for what there is not, or cannot be found out.
	Claim func(namespace, name string) (*corev1.PersistentVolumeClaim, *corev1.Event)
	// Peak returns the most memory, in bytes, that a container had which the kernel has killed for want of it; 0 if that is
	// not known.
	Peak func(p *corev1.Pod, container string) int64
	// Past returns what the former runs of a Job have used; nil if there is no history.
	Past func(j *batchv1.Job) history.Runs
	// Log returns the last lines that a container has written, of its last attempt or the one before.
	Log func(p *corev1.Pod, container string, previous bool) []string
	// ExitCodes are those of the pods of a Job that has ended, also of pods that are gone; it may be nil.
	ExitCodes func(j *batchv1.Job) []history.ExitCode
	// JobLog returns the last lines of a Job, also of pods that are gone; it may be nil.
	JobLog func(j *batchv1.Job) []string
}

// Holder is a pod that holds what others wait for.
type Holder struct {
	Object why.Reference
	// Ends is when its deadline, or that of its Job, ends it at the latest; zero for never.
	Ends time.Time
}

// Pressure is that too little is left of the disk or the memory, or was just now.
type Pressure struct {
	Path string // on that disk
	What string // how much is left, and how much has to be
	// Short says that it still is, Seen when it was last, and Until until when no pods start if it is not again.
	Short       bool
	Seen, Until time.Time
}

// ClaimWait is a claim for which a pod is held back.
type ClaimWait struct {
	Claim string
	// Why says it in a scheduler's words; empty while the volume is being made.
	Why string
	// Volume is the volume if that is for other machines, and Hosts what its node affinity asks for.
	Volume, Hosts string
	// User is the pod that uses a claim which only one may use; nil if the client may not see it.
	User *why.Reference
}

// A jobCause returns the reasons of one kind for the state of a Job; none if they do not apply.
type jobCause func(*jobView) []why.Cause

// jobCauses are in the order in which they are told.
var jobCauses = []jobCause{
	jobElsewhere,
	jobEnd,
	jobAttempts,
	jobTerminating,
	jobSuspended,
	jobPaused,
	jobPreempted,
	jobStartAt,
	jobAfter,
	jobWindow,
	jobGroup,
	jobRefused,
	jobBackoff,
	jobHeldIndexes,
	jobIdle,
	jobWaiting,
	jobFailures,
	jobRunning,
	failuresLeft,
	jobOverflows,
	jobDeadline,
	jobSignaled,
	jobSuccessRules,
	jobExpected,
	jobOfSet,
	jobTTL,
}

// A podCause returns the reasons of one kind for the state of a pod; none if they do not apply.
type podCause func(*podView) []why.Cause

// podCauses are in the order in which they are told.
var podCauses = []podCause{
	podTerminating,
	podElsewhere,
	podGated,
	podPaused,
	podWindow,
	podPreempted,
	podClaim,
	podRoom,
	podRightSize,
	podUnscheduled,
	podDisrupted,
	podRejected,
	podDeadline,
	podSignaled,
	podReferences,
	podClaims,
	podSetUp,
	podImage,
	podStart,
	podInitializes,
	podRestarts,
	podExits,
	podProbes,
	podGrown,
	podRuns,
	podOfSet,
}

// Job explains a Job with its pods. Pods that have succeeded may be missing.
func Job(w World, j *batchv1.Job, pods []*corev1.Pod) *why.Explanation {
	v := &jobView{World: w, job: j, pods: pods, end: batch.End(&j.Status)}
	all := Gather(jobCauses, v)
	state, message := v.state(heading(all))
	if w.Forecast != nil && w.Forecast.Ends != nil {
		message += " Its end is " + w.Forecast.Ends.Brief(w.Now) + "."
	}
	e := w.Explain("Job", j, state, message, all)
	e.Forecast = w.Forecast
	return e
}

// Pod explains a pod. j is the Job that controls it, nil for none.
func Pod(w World, p *corev1.Pod, j *batchv1.Job) *why.Explanation {
	v := &podView{World: w, pod: p, job: j, whole: true}
	all := append(v.causes(), podPolicy(v)...)
	state, message := v.state(why.Reason(all))
	index := p.Annotations[batchv1.JobCompletionIndexAnnotation]
	if values := w.valuesOf(index); values != "" {
		message += fmt.Sprintf(" Its index is %s: %s.", index, values)
	}
	return w.Explain("Pod", p, state, message, all)
}

// NoJob explains that there is no Job of a name of which a success is expected.
func NoJob(w World, namespace, name string) *why.Explanation {
	v := &jobView{World: w, job: &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}}
	return w.Explain("Job", v.job, "Gone", "is not there any more, and jobd expects that one of its name succeeds.", jobExpected(v))
}

// heading says in a few words why, and names each reason where there are several: who reads only the first line must not take one for all.
func heading(causes []why.Cause) string {
	const most = 3
	var briefs []string
	for i := range causes {
		brief := why.Reason(causes[i : i+1])
		if brief != "" && !slices.ContainsFunc(briefs, func(said string) bool { return strings.Contains(said, brief) }) {
			briefs = append(briefs, brief)
		}
	}
	n := len(briefs)
	if n < 2 {
		return strings.Join(briefs, "")
	}
	more := ""
	if n > most {
		briefs, more = briefs[:most], fmt.Sprintf("; and %d more", n-most)
	}
	return fmt.Sprintf("%d causes: %s%s", n, strings.Join(briefs, "; "), more)
}

// Gather returns what the causes of a list say, in their order.
func Gather[V any, F ~func(V) []why.Cause](list []F, v V) []why.Cause {
	all := []why.Cause{}
	for _, cause := range list {
		all = append(all, cause(v)...)
	}
	return all
}

// Explain makes an explanation of what was found out about an object.
func (w *World) Explain(kind string, obj metav1.Object, state, message string, causes []why.Cause) *why.Explanation {
	return &why.Explanation{
		APIVersion: why.APIVersion, Kind: why.Kind,
		Object: reference(kind, obj), At: metav1.NewTime(w.Now), Source: w.Source,
		State: state, Reason: why.Reason(causes), Message: message, Causes: causes,
	}
}

// SetAside explains an object that the daemon leaves alone, for the reason that the message says. Nothing else is looked at:
// what the daemon has hung on may hang here as well. final says that no change of the object is enough to end that.
func SetAside(w World, kind string, obj metav1.Object, message string, final bool) *why.Explanation {
	c := why.Cause{Type: "SetAside", Message: why.Sentence(message), Brief: "set aside, since jobd has broken down on it"}
	if !final {
		c.Help = []string{fmt.Sprintf("jobctl annotate %ss/%s%s --overwrite try-again=\"$(date)\"",
			strings.ToLower(kind), obj.GetName(), why.InNamespace(obj.GetNamespace()))}
	}
	return w.Explain(kind, obj, "SetAside", "is set aside.", []why.Cause{c})
}

func reference(kind string, obj metav1.Object) why.Reference {
	return why.Reference{Kind: kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

func about(kind string, obj metav1.Object) *why.Reference {
	r := reference(kind, obj)
	return &r
}

// LastEvent returns the latest event about an object with one of these reasons, or of any; nil if there is none.
func (w *World) LastEvent(uid types.UID, reasons ...string) *corev1.Event {
	var last *corev1.Event
	for i := range w.Events {
		e := &w.Events[i]
		if e.InvolvedObject.UID == uid && (len(reasons) == 0 || slices.Contains(reasons, e.Reason)) &&
			(last == nil || !core.LastSeen(e).Before(core.LastSeen(last))) {
			last = e
		}
	}
	return last
}

// refusalOf returns why the API has refused a pod, without the pod's name: pods "x-y" is forbidden: ...
func refusalOf(message string) string {
	if found := lacksAccount.FindStringSubmatch(message); found != nil {
		return "ServiceAccount " + found[1] + " does not exist"
	}
	if _, said, found := strings.Cut(message, " is forbidden: "); found {
		return "pods refused: " + said
	}
	return "pods refused: " + message
}

// lacksAccount finds the name of a ServiceAccount that a pod needs in vain.
var lacksAccount = regexp.MustCompile(`error looking up service account [^/ ]+/([^: ]+):.*not found`)

// silent returns the world without what takes time to find out.
func (w *World) silent() World {
	quiet := *w
	quiet.Log, quiet.JobLog, quiet.Peak, quiet.Past, quiet.ExitCodes = nil, nil, nil, nil, nil
	return quiet
}
