package annotations

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/hostpath"
	"github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/api/notices"
	"github.com/jobd/jobd/api/runas"
)

// examples are values that the annotations can have.
var examples = map[string]string{
	batch.AfterAnnotation:                       "prep,check:any",
	batch.StartAtAnnotation:                     "2026-12-01T22:00:00+01:00",
	batch.ResumedAnnotation:                     "2026-07-01T09:00:00Z",
	jobset.GangAnnotation:                       "true",
	core.WindowAnnotation:                       "22:00-06:00 Mon-Fri",
	core.WindowTimeZoneAnnotation:               "Europe/Berlin",
	core.WindowEndAnnotation:                    "pause",
	core.ConcurrencyGroupAnnotation:             "db",
	core.ConcurrencyLimitAnnotation:             "1",
	core.ConcurrencyPolicyAnnotation:            "Queue",
	batch.IndexEnvAnnotation:                    "train-values",
	batch.ArrayAnnotation:                       "1-4",
	batch.BackoffBaseAnnotation:                 "500ms",
	batch.BackoffCapAnnotation:                  "2m",
	batch.OOMMemoryFactorAnnotation:             "1.5",
	batch.OOMMemoryMaxAnnotation:                "8Gi",
	batch.OOMKillsAnnotation:                    "2",
	batch.PrioritizedAnnotation:                 "2026-01-31T22:00:00Z",
	batch.KeepLogsAnnotation:                    "true",
	batch.AttemptsAnnotation:                    `[{"attempt":1,...}]`,
	batch.AttemptAnnotation:                     "2",
	batch.MovingAnnotation:                      `{"to":"big"}`,
	clusters.OverflowAfterAnnotation:            "10m",
	clusters.OverflowedAnnotation:               "2026-01-31T22:00:00Z",
	batch.MovedFromAnnotation:                   "4c1f7c5e-8a52-4d9b-9d3b-0f6f0c1f6a2e",
	batch.SchedulesAnnotation:                   "30 6 * * 1-5; 0 9 * * 6",
	batch.JitterAnnotation:                      "10m",
	batch.MissedAnnotation:                      "all",
	batch.MissedMaxAnnotation:                   "10",
	batch.ScriptAnnotation:                      "#!/bin/sh ...",
	batchv1.CronJobScheduledTimestampAnnotation: "2026-01-31T22:00:00+01:00",
	batch.ManifestHashAnnotation:                "v1-5f3c...",
	batch.PausedAnnotation:                      "2026-01-31T22:00:00Z",
	batch.PausedForAnnotation:                   "10m0s",
	core.PreemptByAnnotation:                    "pause",
	core.ShareAnnotation:                        "2",
	core.SignalAnnotation:                       "USR1@120s",
	core.KeepFilesAnnotation:                    "1h",
	core.RoleAnnotation:                         "read",
	notices.ReceiversAnnotation:                 "ops,phone",
	notices.OnAnnotation:                        "failed,recovered",
	notices.AfterAnnotation:                     "30m",
	notices.EveryAnnotation:                     "26h",
	hostpath.Annotation:                         "/data/team,/srv/models:ro",
	runas.Annotation:                            "1000:1000,27",
	runas.UserAnnotation:                        "alice",
	simulatedDuration:                           "1m30s",
	simulatedExitCode:                           "3:1,5:42",
}

// standing are the types that have annotations, in the order in which they are named, and where in an object.
var standing = []struct{ model, where string }{
	{batchv1.Job{}.OpenAPIModelName(), "Job"},
	{batchv1.CronJob{}.OpenAPIModelName(), "CronJob"},
	{batchv1.JobTemplateSpec{}.OpenAPIModelName(), "CronJob, in spec.jobTemplate"},
	{modelOfSets, "JobSet"},
	{modelOfSetTemplates, "JobSet, in spec.replicatedJobs[].template"},
	{corev1.Pod{}.OpenAPIModelName(), "Pod"},
	{corev1.PodTemplateSpec{}.OpenAPIModelName(), "template of pods, in the spec of a Job and of the template of a Job in a CronJob or JobSet"},
	{corev1.ServiceAccount{}.OpenAPIModelName(), "ServiceAccount"},
	{corev1.Namespace{}.OpenAPIModelName(), "Namespace"},
}

// Entry is an annotation with all places where it has the same meaning.
type Entry struct {
	Name, Meaning, Example string
	Places                 []string // such as "Job", or "CronJob, in spec.jobTemplate"
}

// All returns all annotations by their names.
func All() (all []Entry) {
	documented := documented()
	for _, s := range standing {
		for _, a := range documented[s.model] {
			i := slices.IndexFunc(all, func(e Entry) bool { return e.Name == a.name && e.Meaning == sentence(a.meaning) })
			if i < 0 {
				i = len(all)
				all = append(all, Entry{Name: a.name, Meaning: sentence(a.meaning), Example: examples[a.name]})
			}
			all[i].Places = append(all[i].Places, s.where)
		}
	}
	slices.SortStableFunc(all, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Explain writes what each annotation means, where it stands, and an example, for people at a terminal.
func Explain(w io.Writer) error {
	var out strings.Builder
	out.WriteString("Annotations that jobd reads or sets, in metadata.annotations. A cluster ignores those of jobd.dev.\n")
	for _, e := range All() {
		fmt.Fprintf(&out, "\n%s: %q\n  of a %s\n  %s\n", e.Name, e.Example, strings.Join(e.Places, "; "), e.Meaning)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// sentence begins a meaning, which stands behind a colon elsewhere, with a capital letter.
func sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
