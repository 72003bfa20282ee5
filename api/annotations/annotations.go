// Package annotations adds what jobd's own annotations mean to the OpenAPI models of the types that carry them, so that
// `kubectl explain` shows them. What an annotation does is decided, and checked, where its constant stands.
package annotations

import (
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/kube-openapi/pkg/common"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/hostpath"
)

// annotation is one that users write, or read.
type annotation struct{ name, meaning string }

var ofJobs = []annotation{
	{batch.BackoffBaseAnnotation, `the wait after the first failure of a pod, which doubles with each further one ("500ms"; jobd serve --pod-backoff-base).`},
	{batch.BackoffCapAnnotation, `the longest such wait ("2m"; jobd serve --pod-backoff-cap).`},
	{batch.OOMMemoryFactorAnnotation, `by how much the memory of a container grows in the next pod after it was killed for want of memory ("1.5"). Needs ` + batch.OOMMemoryMaxAnnotation + `.`},
	{batch.OOMMemoryMaxAnnotation, `the limit up to which it grows ("8Gi").`},
	{batch.PrioritizedAnnotation, `the time since which the Job's waiting pods come before others of the same priority. jobctl prioritize sets it.`},
	{batch.AttemptsAnnotation, `the attempts before the current one, which jobctl retry records. Read-only.`},
}

// What the simulated runtime reads (jobd serve --runtime simulated). It stands below the API, so that its names are repeated
// here.
const (
	simulatedDuration = "jobd.dev/simulate-duration"
	simulatedExitCode = "jobd.dev/simulate-exit-code"
)

var ofTemplates = []annotation{
	{core.KeepFilesAnnotation, `for how long after the pod's end its files are kept for jobctl cp ("1h", at most 168h).`},
	{simulatedDuration, `with jobd serve --runtime simulated, for how long each container runs ("1m30s"; "0s").`},
	{simulatedExitCode, `with jobd serve --runtime simulated, what each container exits with: "1"; "1,1,0" start by start; "3:1,5:42" by completion index.`},
}

var ofPods = append(slices.Clone(ofTemplates), []annotation{
	{batch.OOMKillsAnnotation, `after how many kills for want of memory the pod's memory was chosen. Read-only.`},
	{batch.AttemptAnnotation, `the attempt of its Job to which the pod belongs, unless it is the first. Read-only.`},
}...)

// documented lists the annotations of each type, and of each template of one.
func documented() map[string][]annotation {
	return map[string][]annotation{
		batchv1.Job{}.OpenAPIModelName():             ofJobs,
		batchv1.JobTemplateSpec{}.OpenAPIModelName(): slices.DeleteFunc(slices.Clone(ofJobs), func(a annotation) bool { return a.name == batch.AttemptsAnnotation }),
		corev1.Pod{}.OpenAPIModelName():              ofPods,
		corev1.PodTemplateSpec{}.OpenAPIModelName():  ofTemplates,
		corev1.ServiceAccount{}.OpenAPIModelName(): {
			{core.RoleAnnotation, `what the pods of the ServiceAccount may do with its token in their namespace: read, submit or admin.`},
		},
		corev1.Namespace{}.OpenAPIModelName(): {
			{hostpath.Annotation, `which paths of the host its pods may mount, separated by commas ("/data/team,/srv/models:ro"). Only an administrator may write it.`},
		},
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
