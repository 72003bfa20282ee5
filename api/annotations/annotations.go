// Package annotations adds what jobd's own annotations mean to the OpenAPI models of the types that carry them, so that
// `kubectl explain` shows them. What an annotation does is decided and validated in the package that defines its constant.
package annotations

import (
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/kube-openapi/pkg/common"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/hostpath"
	"github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/api/notices"
	"github.com/jobd/jobd/api/runas"
)

// annotation is one that users write, or read.
type annotation struct{ name, meaning string }

// ofNotices are those that a Job has from its CronJob and its namespace, if it lacks them.
var ofNotices = []annotation{
	{notices.ReceiversAnnotation, `who is told of Jobs: names of receivers in the settings of jobd, separated by commas; "" for nobody (docs/notices.md).`},
	{notices.OnAnnotation, `of what they are told: ` + notices.KindList() + ` ("failed,recovered,overdue").`},
	{notices.AfterAnnotation, `how long a Job may wait for its first pod to run before it "waits" or is "started-late" ("10m").`},
}

var ofJobs = append(slices.Clone(ofNotices), []annotation{
	{batch.BackoffBaseAnnotation, `the wait after the first failure of a pod, which doubles with each further one ("500ms"; jobd serve --pod-backoff-base).`},
	{batch.BackoffCapAnnotation, `the longest such wait ("2m"; jobd serve --pod-backoff-cap).`},
	{
		batch.OOMMemoryFactorAnnotation,
		`by how much the memory of a container grows in the next pod after it was killed for want of memory ("1.5"). Needs ` + batch.OOMMemoryMaxAnnotation + `.`,
	},
	{batch.OOMMemoryMaxAnnotation, `the limit up to which it grows ("8Gi").`},
	{batch.PrioritizedAnnotation, `the time since which the Job's waiting pods come before others of the same priority. jobctl prioritize sets it.`},
	{
		batch.PausedAnnotation,
		`the time since which the Job is to be paused: its containers are frozen, and its deadlines stand still. jobctl pause sets it, and jobctl continue removes it.`,
	},
	{batch.PausedForAnnotation, `for how long the Job was paused since its start ("5m0s"). Read-only.`},
	{
		batch.AfterAnnotation,
		`the Jobs and JobSets of its namespace after which a suspended Job is resumed ("prep,check:any,jobsets/train"): completed (ok, the default), failed, or any.`,
	},
	{
		batch.IndexEnvAnnotation,
		`the ConfigMap with the values of each index of an Indexed Job: a variable that is its key "lr" in the template is "3.lr" in the pod of index 3. In a cluster no container starts.`,
	},
	{
		batch.ArrayAnnotation,
		`the tasks of an Indexed Job that is the array of a batch system ("1-4", "0-15:4", "1,3,7"), as many as its completions: what index i is called where it is shown. jobctl submit SCRIPT sets it.`,
	},
	{
		batch.StartAtAnnotation,
		`when a suspended Job is resumed ("2026-12-01T22:00:00+01:00"): at once if the machine was off then. With ` + batch.AfterAnnotation + ` both must hold.`,
	},
	{
		core.WindowAnnotation,
		`at which times its pods may start ("22:00-06:00 Mon-Fri, 00:00-24:00 Sat-Sun"); the days are those on which a window opens.`,
	},
	{core.WindowTimeZoneAnnotation, `the time zone of ` + core.WindowAnnotation + ` ("Europe/Berlin"); that of the machine without it.`},
	{
		core.WindowEndAnnotation,
		`what becomes of pods that run when the window closes: they "finish" (the default), "pause" until it opens, or "stop" as if the Job were suspended.`,
	},
	{core.ConcurrencyGroupAnnotation, `a group of its namespace of which only some Jobs run at a time; the others wait.`},
	{core.ConcurrencyLimitAnnotation, `how many of the group run at a time ("1").`},
	{
		core.ConcurrencyPolicyAnnotation,
		`what happens to the Job if the group has no place: it waits ("Queue"), ends the oldest one ("Replace"), or fails ("Forbid").`,
	},
	{
		core.PreemptByAnnotation,
		`what becomes of its pods when those of a higher priority displace them: they end ("evict", the default), or are frozen ("pause") until their CPU is free again.`,
	},
	{
		batch.KeepLogsAnnotation,
		`whether the logs of its pods are kept after the Job is gone, as long as those of other pods that are gone and their namespace ("true", "false"). They are, unless it says "false", for what MultiKueue hands out.`,
	},
	{batch.ResumedAnnotation, `when a Job that waited for others, or for a time, was resumed; from then on it is held back no more. Read-only.`},
	{
		batch.MovingAnnotation,
		`where the Job is being moved to (jobctl move), for as long as that takes: it is suspended, and nobody can resume it. Read-only.`,
	},
	{
		clusters.OverflowAfterAnnotation,
		`for how long a Job whose spec.managedBy is jobd.dev/overflow.CLUSTER waits for its first pod here ("10m", the default): after that it runs in that cluster.`,
	},
	{clusters.OverflowedAnnotation, `when such a Job went to its cluster. Read-only.`},
	{batch.MovedFromAnnotation, `the UID that the Job had on the machine from which it was moved. jobctl move sets it.`},
	{batch.AttemptsAnnotation, `the attempts before the current one, which jobctl retry records. Read-only.`},
	{
		notices.EveryAnnotation,
		`within which time a Job of this name has to succeed, again and again ("26h"): else it is overdue, also when there is no Job any more.`,
	},
	manifestHash,
}...)

var ofSets = append(slices.Clone(ofNotices), []annotation{
	{batch.PausedAnnotation, `the time since which the Jobs of the JobSet are to be paused. jobctl pause sets it, and jobctl continue removes it.`},
	{
		batch.AfterAnnotation,
		`the Jobs and JobSets of its namespace after which a suspended JobSet is resumed ("prep,jobsets/train:any"): completed (ok, the default), failed, or any.`,
	},
	{
		jobset.GangAnnotation,
		`"true": all pods of the groups that begin with the JobSet start together or wait together, in each attempt. It cannot be changed.`,
	},
	{batch.ResumedAnnotation, `when a JobSet that waited for others was resumed; from then on it is held back no more. Read-only.`},
}...)

var ofCronJobs = []annotation{
	{batch.SchedulesAnnotation, `further schedules beside spec.schedule, separated by semicolons ("30 6 * * 1-5; 0 9 * * 6"). A time of several is one run.`},
	{batch.JitterAnnotation, `how much later than its times a run may start, so that not all start at once: always by as much, by a hash of the name ("10m").`},
	{
		batch.MissedAnnotation,
		`what becomes of times that were missed: "latest" makes up for the last one, "all" for each in order, "none" for none that is more than a minute late.`,
	},
	{batch.MissedMaxAnnotation, `with ` + batch.MissedAnnotation + `: all, how many times are made up for, the latest ones ("10"; at most 100).`},
}

var manifestHash = annotation{
	batch.ManifestHashAnnotation, `what it was applied from, if a file of the directory of manifests has it (jobd serve --manifests). Read-only.`,
}

// What the simulated runtime reads (jobd serve --runtime simulated). It stands below the API, so that its names are repeated
// here.
const (
	simulatedDuration = "jobd.dev/simulate-duration"
	simulatedExitCode = "jobd.dev/simulate-exit-code"
)

var ofTemplates = []annotation{
	{core.KeepFilesAnnotation, `for how long after the pod's end its files are kept for jobctl cp ("1h", at most 168h).`},
	{batch.ScriptAnnotation, `the text of a batch script, which a volume of the downward API shows to the container. jobctl submit SCRIPT sets it.`},
	{
		core.SignalAnnotation,
		`the signal that the first process of each container gets that long before a deadline, of the pod or its Job, ends the pod, and before an eviction or a preemption ("USR1@120s").`,
	},
	{simulatedDuration, `with jobd serve --runtime simulated, for how long each container runs ("1m30s"; "0s").`},
	{simulatedExitCode, `with jobd serve --runtime simulated, what each container exits with: "1"; "1,1,0" start by start; "3:1,5:42" by completion index.`},
}

var ofPods = append(slices.Clone(ofTemplates), []annotation{
	{core.PausedForAnnotation, `for how long the pod was paused since its start ("5m0s"). Read-only.`},
	{batch.IndexEnvAnnotation, `the ConfigMap with the values of the pod's index, from its Job. Read-only.`},
	{batch.ArrayAnnotation, `the task of an array that the pod is, from its Job ("3"). Read-only.`},
	{batch.KeepLogsAnnotation, `that the pod's logs are kept after its Job is gone, from the Job ("true"). Read-only.`},
	{batch.OOMKillsAnnotation, `after how many kills for want of memory the pod's memory was chosen. Read-only.`},
	{batchv1.CronJobScheduledTimestampAnnotation, `the time for which a CronJob has started the pod's Job, for the downward API. Read-only.`},
	{batch.AttemptAnnotation, `the attempt of its Job to which the pod belongs, unless it is the first. Read-only.`},
	manifestHash,
}...)

// The types without a name of their own: JobSets, and the templates of their Jobs.
const (
	modelOfSets         = "sigs.k8s.io/jobset/api/jobset/v1alpha2.JobSet"
	modelOfSetTemplates = modelOfSets + ".template"
)

// without returns a list without some annotations.
func without(list []annotation, names ...string) []annotation {
	return slices.DeleteFunc(slices.Clone(list), func(a annotation) bool { return slices.Contains(names, a.name) })
}

// inTemplates are those of a Job that its template has.
var inTemplates = without(
	ofJobs, batch.AttemptsAnnotation, batch.ResumedAnnotation, batch.PausedForAnnotation, notices.EveryAnnotation, batch.ManifestHashAnnotation,
	batch.StartAtAnnotation, batch.MovingAnnotation, batch.MovedFromAnnotation, clusters.OverflowedAnnotation,
)

// documented lists the annotations of each type, and of each template of one.
func documented() map[string][]annotation {
	return map[string][]annotation{
		batchv1.Job{}.OpenAPIModelName():             ofJobs,
		batchv1.JobTemplateSpec{}.OpenAPIModelName(): inTemplates,
		modelOfSets:         ofSets,
		modelOfSetTemplates: without(inTemplates, batch.AfterAnnotation, batch.PausedAnnotation),
		batchv1.CronJob{}.OpenAPIModelName(): append(slices.Concat(ofCronJobs, ofNotices), annotation{
			notices.EveryAnnotation,
			`within which time one of its Jobs has to succeed ("26h"): else it is overdue, also when it is suspended or the machine was off.`,
		}),
		corev1.Pod{}.OpenAPIModelName():             ofPods,
		corev1.PodTemplateSpec{}.OpenAPIModelName(): ofTemplates,
		corev1.ServiceAccount{}.OpenAPIModelName(): {
			{core.RoleAnnotation, `what the pods of the ServiceAccount may do with its token in their namespace: read, submit or admin.`},
		},
		corev1.Namespace{}.OpenAPIModelName(): append(slices.Clone(ofNotices), []annotation{
			{core.ShareAnnotation, `its weight where the queue is ordered by use ("2"; jobd serve --queue-order fair).`},
			{
				hostpath.Annotation,
				`which paths of the host its pods may mount, separated by commas ("/data/team,/srv/models:ro"). Only an administrator may write it.`,
			},
			{
				runas.Annotation,
				`the user and the groups of the host as whom its pods run, by their numbers ("1000:1000,27"). Only an administrator may write it.`,
			},
			{runas.UserAnnotation, `the user of this machine whom it belongs to (jobd serve --users). Read-only.`},
			{core.WindowAnnotation, `at which times pods of its Jobs may start that have no window of their own ("22:00-06:00"; 00:00-24:00 of a Job is always).`},
			{core.WindowTimeZoneAnnotation, `the time zone of ` + core.WindowAnnotation + ` ("Europe/Berlin"); that of the machine without it.`},
			{core.WindowEndAnnotation, `what becomes of pods of those Jobs that run when the window closes: finish, pause or stop, as for a Job.`},
			{core.ConcurrencyGroupAnnotation, `the group of its Jobs that name none; that of the namespace's name, if there is only a limit.`},
			{core.ConcurrencyLimitAnnotation, `how many of those run at a time ("1").`},
			{core.ConcurrencyPolicyAnnotation, `what happens to one for which there is no place: Queue, Replace or Forbid, as for a Job.`},
			{core.PreemptByAnnotation, `whether pods of those of its Jobs that do not say so are ended ("evict") or frozen ("pause") for others of a higher priority.`},
		}...),
	}
}

// Definitions returns get with the annotations added to its models.
func Definitions(get common.GetOpenAPIDefinitions) common.GetOpenAPIDefinitions {
	return func(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
		models := get(ref)
		for name, all := range documented() {
			model, ok := models[name]
			if !ok {
				continue
			}
			var text strings.Builder
			text.WriteString(model.Schema.Description + "\n\nAnnotations that jobd reads or sets (metadata.annotations):")
			for _, a := range all {
				text.WriteString("\n- " + a.name + ": " + a.meaning)
			}
			model.Schema.Description = text.String()
			models[name] = model
		}
		return models
	}
}
