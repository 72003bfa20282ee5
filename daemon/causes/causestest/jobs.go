package causestest

import (
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/retry"
	"github.com/jobd/jobd/daemon/causes"
	"github.com/jobd/jobd/daemon/dependents"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/prospect"
)

// jobs are the cases in which the cause is one of the Job itself, or of pods that have run.
func jobs() map[string]Case {
	plain := newJob(func(*batchv1.Job) {})
	standing := func(s job.Standing) causes.World {
		s.Base, s.Cap = time.Second, time.Minute
		return causes.World{Standing: &s}
	}
	refused := func(times int, message string) causes.World {
		w := standing(job.Standing{Refused: times, RefusedUntil: Now.Add(time.Minute)})
		w.Events = []corev1.Event{{
			InvolvedObject: corev1.ObjectReference{UID: "u"}, Reason: "FailedCreate", Message: "Error creating: " + message,
			LastTimestamp: metav1.NewTime(Now),
		}}
		return w
	}
	const quota = `pods "j-x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1`
	const account = `pods "j-x" is forbidden: error looking up service account n/robot: serviceaccount "robot" not found`
	leaving := func(j *batchv1.Job) { j.DeletionTimestamp = ptr.To(metav1.NewTime(Now)) }
	foreground := newJob(func(j *batchv1.Job) { leaving(j); j.Finalizers = []string{metav1.FinalizerDeleteDependents} })
	held := job.Standing{}
	for i := range int32(7) {
		held.Held = append(held.Held, job.HeldIndex{Index: i, Failures: 1, Until: Now.Add(time.Minute)})
	}
	waits := job.Standing{Failures: 1, Failed: 1, Delay: time.Minute, Until: Now.Add(time.Minute)}
	ended := func(reason string) *batchv1.Job { return newJob(ends(batchv1.JobFailed, reason)) }
	inCluster := func(change func(*batchv1.Job)) *batchv1.Job {
		return newJob(func(j *batchv1.Job) {
			j.Spec.ManagedBy, j.CreationTimestamp = ptr.To(clusters.Manager("prod")), metav1.NewTime(Now)
			if change != nil {
				change(j)
			}
		})
	}
	told := func(t batchv1.JobConditionType, message string) []batchv1.JobCondition {
		return []batchv1.JobCondition{{Type: t, Status: corev1.ConditionTrue, Message: message}}
	}
	all := map[string]Case{
		"refused by a quota": {
			Job: plain, World: refused(2, quota), Reason: "pods refused: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1", Start: CannotAlone,
		},
		"refused by a rule": {Job: plain, World: refused(2, `pods "j-x" is forbidden: no`), Reason: "pods refused: no", Start: Cannot},
		"no account": {
			Job: plain, World: refused(2, account), Reason: "ServiceAccount robot does not exist", Help: "create serviceaccount robot -n n", Start: Cannot,
		},
		"refused once": {
			Job: plain, World: refused(1, account), Reason: "ServiceAccount robot does not exist", Help: "create serviceaccount robot -n n", Start: Waits,
		},
		"back-off": {
			Job: plain, World: standing(waits), Reason: "back-off of 1m0s before the next pod", Help: "annotate jobs/j", Start: Waits,
		},
		"back-off of indexes": {
			Job: plain, World: standing(held), Reason: "back-off of index 0 after failure 1", Help: "2 more indexes wait", Start: Waits,
		},
		"no parallelism": {
			Job: newJob(func(j *batchv1.Job) { j.Spec.Parallelism = ptr.To[int32](0) }), Reason: "its parallelism is 0", Help: "patch jobs/j",
			Start: CannotAlone,
		},
		"pods before": {
			Job: newJob(func(j *batchv1.Job) { j.Status.Terminating = ptr.To[int32](1) }), Reason: "1 pod before have to end first", Start: Waits,
		},
		"suspended": {
			Job: newJob(func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(true) }), Reason: "suspended", Help: "resume jobs/j", Start: CannotAlone,
		},
		"being moved": {
			Job: newJob(func(j *batchv1.Job) {
				j.Spec.Suspend, j.Annotations = ptr.To(true), map[string]string{batch.MovingAnnotation: `{"to":"big"}`}
			}),
			Reason: "being moved to big", Help: "move jobs/j --on big", Start: CannotAlone,
		},
		"suspended and paused": {
			Job: newJob(func(j *batchv1.Job) {
				j.Spec.Suspend, j.Annotations = ptr.To(true), map[string]string{batch.PausedAnnotation: "2023-11-14T22:00:00Z"}
			}),
			Reason: "suspended", Help: "continue jobs/j", Start: CannotAlone,
		},
		"paused before it began": {
			Job: newJob(func(j *batchv1.Job) {
				j.Status.StartTime, j.Annotations = nil, map[string]string{batch.PausedAnnotation: "2023-11-14T22:00:00Z"}
			}),
			Reason: "paused", Help: "continue jobs/j", Start: Waits,
		},
		"managed elsewhere": {
			Job:    newJob(func(j *batchv1.Job) { j.Spec.ManagedBy = ptr.To("example.com/other") }),
			Reason: "managed by example.com/other, not here", Start: CannotAlone,
		},
		"in a cluster": {Job: inCluster(nil), Reason: "goes to the cluster prod", Start: Waits},
		"made in a cluster": {
			Job: inCluster(func(j *batchv1.Job) {
				j.Annotations = map[string]string{clusters.RecordAnnotation: clusters.Record{Job: j.UID, UID: "r", Namespace: "n"}.Annotation()}
			}),
			Reason: "waits in the cluster prod", Start: Waits,
		},
		"may overflow": {
			Job: newJob(func(j *batchv1.Job) { j.Spec.ManagedBy = ptr.To(clusters.OverflowManager("prod")) }), World: refused(2, quota),
			Reason: "pods refused: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1", Start: CannotAlone,
		},
		"no forwarder": {
			Job: inCluster(nil), World: causes.World{Forwarder: func(string) (bool, bool) { return false, true }},
			Reason: "no forwarder for the cluster prod", Start: CannotAlone,
		},
		"cluster unreachable": {
			Job: inCluster(func(j *batchv1.Job) {
				j.Status.Conditions = told(clusters.Unreachable, "The cluster prod does not answer")
			}),
			Reason: "cluster prod unreachable", Start: Waits,
		},
		"another cluster is reached": {
			Job: inCluster(func(j *batchv1.Job) {
				j.Status.Conditions = told(clusters.Unreachable, "The forwarder reaches another cluster")
				j.Status.Conditions[0].Reason = clusters.ReasonOtherCluster
			}),
			Reason: "another cluster than that of the Job is reached", Start: Waits,
		},
		"a copy of its machine": {
			Job: inCluster(func(j *batchv1.Job) {
				j.Status.Conditions = told(clusters.Unreachable, "The Job is in the cluster for another machine")
				j.Status.Conditions[0].Reason = clusters.ReasonOtherMachine
			}),
			Reason: "another machine's in the cluster prod", Start: Waits,
		},
		"refused by its cluster": {
			Job: inCluster(func(j *batchv1.Job) {
				j.Status.Conditions = told(clusters.NotForwarded, "there is no ServiceAccount a in prod")
			}),
			Reason: "not taken by the cluster prod", Start: Waits,
		},
		"not taken by its forwarder": {
			Job:    inCluster(func(j *batchv1.Job) { j.CreationTimestamp = metav1.NewTime(Now.Add(-time.Minute)) }),
			Reason: "not taken by the forwarder of prod", Start: Waits,
		},
		"deleted in a cluster": {
			Job:   inCluster(func(j *batchv1.Job) { leaving(j); j.Finalizers = []string{clusters.Finalizer} }),
			World: causes.World{Forwarder: func(string) (bool, bool) { return false, true }}, Reason: "waits to be removed in the cluster prod",
			Help: "patch jobs/j", Start: Waits,
		},
		"set aside": {Job: plain, SetAside: true, Reason: "set aside, since jobd has broken down on it", Help: "annotate jobs/j", Start: Cannot},

		// Nobody waits for the start of these.
		"deleted": {Job: newJob(leaving), Start: Waits},
		"foreground": {
			Job: foreground, World: causes.World{Dependents: leftBehind()}, Reason: "waits for jobs/a and 4 more to go", Help: "why jobs/a", Start: Waits,
		},
		"failures count": {
			Job: newJob(func(j *batchv1.Job) {
				j.Status.Failed, j.Spec.TTLSecondsAfterFinished, j.Spec.ActiveDeadlineSeconds = 1, ptr.To[int32](60), ptr.To[int64](60)
			}), World: standing(job.Standing{Failed: 1, Failures: 1, Until: Now}), Reason: "about to go on", Help: "survives 5 more", Start: Waits,
		},
		"failed at its limit": {
			Job: newJob(func(j *batchv1.Job) {
				ends(batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded)(j)
				j.Status.Failed, j.Spec.TTLSecondsAfterFinished = 1, ptr.To[int32](60)
			}), Help: "--all-restarts", Start: Waits,
		},
		"failed at its deadline": {
			Job: ended(batchv1.JobReasonDeadlineExceeded), Reason: "ran longer than its activeDeadlineSeconds of none", Start: Waits,
		},
		"never started before its deadline": {
			Job: newJob(func(j *batchv1.Job) {
				ends(batchv1.JobFailed, batchv1.JobReasonDeadlineExceeded)(j)
				j.Status.StartTime, j.Spec.ActiveDeadlineSeconds = ptr.To(metav1.NewTime(Now.Add(-5*time.Second))), ptr.To[int64](5)
			}),
			World: causes.World{Events: []corev1.Event{{
				InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "j-x", FieldPath: "spec.containers{c}"},
				LastTimestamp:  metav1.NewTime(Now.Add(-time.Second)), Reason: "Failed", Message: `Failed to pull image "busybx": no such host`,
			}}},
			Reason: `its pods never started: Failed to pull image "busybx": no such host`, Help: "--image IMAGE", Start: Waits,
		},
		"succeeded as its policy says": {
			Job: newJob(func(j *batchv1.Job) {
				ends(batchv1.JobComplete, batchv1.JobReasonSuccessPolicy)(j)
				j.Spec.CompletionMode, j.Spec.Completions = ptr.To(batchv1.IndexedCompletion), ptr.To[int32](3)
				j.Status.CompletedIndexes, j.Status.Succeeded = "1", 1
				j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{
					{SucceededIndexes: ptr.To("0")}, {SucceededIndexes: ptr.To("1")}, {SucceededIndexes: ptr.To("2")},
				}}
			}), Help: "Rule 1 is met", Start: Waits,
		},
		"retried": {
			Job: newJob(func(j *batchv1.Job) {
				ends(batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded)(j)
				if err := retry.Begin(j, retry.Request{}, "me", Now); err != nil {
					panic(err)
				}
			}), World: standing(job.Standing{}), Reason: "about to go on", Help: "Attempt 1 failed", Start: Waits,
		},
	}
	for name, c := range heldJobs() {
		all[name] = c
	}
	for name, c := range endedPods() {
		all[name] = c
	}
	return all
}

// ends gives a Job an end.
func ends(kind batchv1.JobConditionType, reason string) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		j.Status.Conditions = []batchv1.JobCondition{{Type: kind, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.NewTime(Now)}}
	}
}

// dependents are one of each kind: one that is about to go, one that finalizers hold, one of a stranger, and some that nobody may see.
func leftBehind() (d dependents.Dependents) {
	some := func(name, stranger string, change func(*batchv1.Job)) {
		d.Add(dependents.Dependent{Kind: "Job", Stranger: stranger, Object: newJob(func(j *batchv1.Job) { j.Name = name; change(j) })})
	}
	some("a", "", func(*batchv1.Job) {})
	some("b", "", func(j *batchv1.Job) {
		j.DeletionTimestamp, j.Finalizers = ptr.To(metav1.NewTime(Now)), []string{"example.com/hold"}
	})
	some("c", "Workflow w (argoproj.io/v1alpha1)", func(*batchv1.Job) {})
	d.Others += 2
	return d
}

// endedPods are the cases of a Job whose pod runs or has ended.
func endedPods() map[string]Case {
	all := map[string]Case{}
	add := func(name, reason, help string, change func(*batchv1.Job, *corev1.Pod, *causes.World)) {
		p, w := newPod(), causes.World{}
		p.Spec.NodeName, p.Status.Phase = "here", corev1.PodFailed
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}
		p.Status.StartTime = ptr.To(metav1.NewTime(Now.Add(-time.Minute)))
		j := newJob(func(j *batchv1.Job) { j.Status.Failed = 1 })
		change(j, p, &w)
		all[name] = Case{Job: j, Pods: []*corev1.Pod{p}, World: w, Alone: true, Reason: reason, Help: help, Start: Waits}
	}
	end := func(code int32, reason, message string) func(*batchv1.Job, *corev1.Pod, *causes.World) {
		return func(j *batchv1.Job, p *corev1.Pod, _ *causes.World) {
			ends(batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded)(j)
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{
					ExitCode: code, Reason: reason, Message: message, StartedAt: *p.Status.StartTime, FinishedAt: metav1.NewTime(Now),
				},
			}}}
		}
	}
	and := func(changes ...func(*batchv1.Job, *corev1.Pod, *causes.World)) func(*batchv1.Job, *corev1.Pod, *causes.World) {
		return func(j *batchv1.Job, p *corev1.Pod, w *causes.World) {
			for _, change := range changes {
				change(j, p, w)
			}
		}
	}
	add("exit code", "exit code 3 of container c", "logs pods/j-x", end(3, "Error", ""))
	add("out of memory", "container c ran out of memory (limit 64Mi)", "--memory 2x", end(137, "OOMKilled", ""))
	add("no program", "container c could not be started: no such file", "Its command does not exist", end(128, "StartError", "no such file"))
	add("unknown end", "the end of container c is not known", "went down", end(137, "ContainerStatusUnknown", ""))
	add("no interpreter", "/s/x.sh: its interpreter is missing (CRLF in its first line?)", "", and(
		end(1, "Error", ""), func(_ *batchv1.Job, _ *corev1.Pod, w *causes.World) {
			w.Log = func(*corev1.Pod, string, bool) []string { return []string{"exec /s/x.sh: no such file or directory"} }
		},
	))
	add("failed check", "liveness probe of container c failed: no", "", and(end(137, "Error", ""), func(_ *batchv1.Job, p *corev1.Pod, w *causes.World) {
		for reason, message := range map[string]string{
			"Killing": "Container c failed liveness probe, will be restarted", "Unhealthy": "Liveness probe failed: no",
		} {
			w.Events = append(w.Events, corev1.Event{
				InvolvedObject: corev1.ObjectReference{UID: p.UID, FieldPath: "spec.containers{c}"}, Reason: reason, Message: message,
				LastTimestamp: metav1.NewTime(Now),
			})
		}
	}))
	add("failure policy", "exit code 3 of container c", "Rule 1 of podFailurePolicy matches it", and(end(3, "Error", ""), func(
		j *batchv1.Job, _ *corev1.Pod, _ *causes.World,
	) {
		j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{}
		for _, code := range []int32{9, 3, 4} {
			j.Spec.PodFailurePolicy.Rules = append(j.Spec.PodFailurePolicy.Rules, batchv1.PodFailurePolicyRule{
				Action: batchv1.PodFailurePolicyActionFailJob, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
					Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{code},
				},
			})
		}
	}))
	add("disrupted", "preempted: it had to make room for a pod of a higher priority", "", func(j *batchv1.Job, p *corev1.Pod, _ *causes.World) {
		ends(batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded)(j)
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler,
		}}
	})
	add("evicted", "Evicted: no memory", "took too much", func(j *batchv1.Job, p *corev1.Pod, _ *causes.World) {
		ends(batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded)(j)
		p.Status.Reason, p.Status.Message = "Evicted", "no memory"
	})
	add("finalizers hold a pod", "being deleted", "example.com/hold", func(j *batchv1.Job, p *corev1.Pod, _ *causes.World) {
		ends(batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded)(j)
		p.DeletionTimestamp, p.Finalizers = ptr.To(metav1.NewTime(Now)), []string{"example.com/hold"}
	})
	for name, finalizers := range map[string][]string{"exit code of a deleted pod": nil, "exit code of a held pod": {"example.com/hold"}} {
		add(name, "exit code 3 of container c", "", and(end(3, "Error", ""), func(_ *batchv1.Job, p *corev1.Pod, _ *causes.World) {
			p.DeletionTimestamp, p.Finalizers = ptr.To(metav1.NewTime(Now)), finalizers
		}))
	}
	running := func(j *batchv1.Job, p *corev1.Pod, _ *causes.World) {
		p.Status.Phase, j.Status.Failed, j.Status.Active, j.Status.Ready = corev1.PodRunning, 0, 1, ptr.To[int32](1)
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{
			Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(Now)},
		}}}
	}
	add("runs", "", "", running)
	add("runs again", "", "exit code 3", and(running, func(_ *batchv1.Job, p *corev1.Pod, _ *causes.World) {
		s := &p.Status.ContainerStatuses[0]
		s.RestartCount, s.LastTerminationState.Terminated = 2, &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error"}
	}))
	add("runs after a success", "", "exit code 0", and(running, func(_ *batchv1.Job, p *corev1.Pod, _ *causes.World) {
		s := &p.Status.ContainerStatuses[0]
		s.RestartCount, s.LastTerminationState.Terminated = 2, &corev1.ContainerStateTerminated{Reason: "Completed"}
	}))
	add("runs towards its deadline", "", "activeDeadlineSeconds of 1h0m0s will end it", and(running, func(_ *batchv1.Job, p *corev1.Pod, _ *causes.World) {
		p.Spec.ActiveDeadlineSeconds = ptr.To[int64](3600)
	}))
	add("runs past its deadline", "", "activeDeadlineSeconds of 10s has passed", and(running, func(_ *batchv1.Job, p *corev1.Pod, _ *causes.World) {
		p.Spec.ActiveDeadlineSeconds, p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](10), ptr.To[int64](300)
	}))
	paused := and(running, func(j *batchv1.Job, p *corev1.Pod, _ *causes.World) {
		j.Annotations = map[string]string{batch.PausedAnnotation: "2023-11-14T22:00:00Z"}
		j.Status.StartTime, j.Spec.ActiveDeadlineSeconds = ptr.To(metav1.NewTime(Now.Add(-time.Minute))), ptr.To[int64](300)
		j.Status.Conditions = []batchv1.JobCondition{{
			Type: batch.JobPaused, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(Now.Add(-20 * time.Second)),
		}}
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: core.PodPaused, Status: corev1.ConditionTrue})
	})
	add("is paused", "paused", "jobctl continue", paused)
	add("is paused, as far as possible", "paused", "jobctl continue", and(paused, func(_ *batchv1.Job, p *corev1.Pod, _ *causes.World) {
		c := &p.Status.Conditions[len(p.Status.Conditions)-1]
		c.Status, c.Reason, c.Message = corev1.ConditionFalse, "FailedPause", "not all of its processes stop"
	}))
	preempted := and(running, func(j *batchv1.Job, p *corev1.Pod, w *causes.World) {
		j.Status.StartTime, j.Spec.ActiveDeadlineSeconds = ptr.To(metav1.NewTime(Now.Add(-time.Minute))), ptr.To[int64](300)
		j.Status.Conditions = []batchv1.JobCondition{{
			Type: batch.JobPaused, Status: corev1.ConditionTrue, Reason: batch.Preempted, LastTransitionTime: metav1.NewTime(Now.Add(-20 * time.Second)),
		}}
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: core.PodDisplaced, Status: corev1.ConditionTrue})
		w.Rooms = map[types.UID]prospect.Room{p.UID: {
			Place: 1, Waiting: 2, Short: []prospect.Shortage{{Resource: corev1.ResourceCPU, Request: 1000, Allocatable: 2000}},
		}}
	})
	add("is preempted by pause", "preempted, and paused", "goes on by itself as soon as its CPU is free", preempted)
	add("is preempted in part", "1 of its pods preempted, and paused", "A pod of it is paused for others of a higher priority", and(preempted,
		func(j *batchv1.Job, _ *corev1.Pod, _ *causes.World) {
			j.Status.Conditions[0].Reason = batch.PodsPreempted
		}))
	inPart := all["is preempted in part"]
	inPart.Alone = false // the pod says it of itself
	all["is preempted in part"] = inPart
	told := "SIGUSR1 was sent: activeDeadlineSeconds of its Job ends it"
	add("runs, and was told of its end", "", told, and(running, func(_ *batchv1.Job, p *corev1.Pod, _ *causes.World) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: core.Signaled, Status: corev1.ConditionTrue, Reason: core.DeadlineNear, Message: told,
		})
	}))
	add("runs with more memory", "", "since pods before it were killed for want of memory", and(running, func(j *batchv1.Job, p *corev1.Pod, _ *causes.World) {
		p.Annotations = map[string]string{batch.OOMKillsAnnotation: "1"}
		j.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("32Mi")},
		}}}
	}))
	return all
}

// Words are the sentences and the commands of an explanation, as people read them but for their line breaks.
func Words(text string) string { return strings.Join(strings.Fields(text), " ") }
