package absent

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestAKindThatRunsWorkIsRefusedWithWhatWorksInstead(t *testing.T) {
	for kind, words := range map[schema.GroupKind]string{
		{Group: "apps", Kind: "Deployment"}:                          "make it a Job",
		{Group: "kubeflow.org", Kind: "MPIJob"}:                      "make it a JobSet",
		{Group: "kubeflow.org", Kind: "PyTorchJob"}:                  "make it a JobSet",
		{Group: "kubeflow.org", Kind: "TFJob"}:                       "make it a JobSet",
		{Group: "trainer.kubeflow.org", Kind: "TrainJob"}:            "make it a JobSet",
		{Group: "ray.io", Kind: "RayJob"}:                            "Indexed Job",
		{Group: "batch.volcano.sh", Kind: "Job"}:                     "Indexed Job",
		{Group: "leaderworkerset.x-k8s.io", Kind: "LeaderWorkerSet"}: "make it a JobSet",
		{Group: "argoproj.io", Kind: "Workflow"}:                     "each step a Job",
		{Group: "argoproj.io", Kind: "CronWorkflow"}:                 "CronJob",
		{Group: "tekton.dev", Kind: "PipelineRun"}:                   "each step a Job",
		{Group: "sparkoperator.k8s.io", Kind: "SparkApplication"}:    "spark-submit",
		{Group: "kueue.x-k8s.io", Kind: "LocalQueue"}:                "ResourceQuotas",
		{Group: "scheduling.volcano.sh", Kind: "Queue"}:              "ResourceQuotas",
		{Group: "keda.sh", Kind: "ScaledJob"}:                        "take work from the queue",
		{Group: "pytorch.org", Kind: "PyTorchJob"}:                   "make it a JobSet",
		{Group: "kubernetes.dask.org", Kind: "DaskJob"}:              "Indexed Job",
		{Group: "pipelines.kubeflow.org", Kind: "Pipeline"}:          "each step a Job",
		{Group: "workload.codeflare.dev", Kind: "AppWrapper"}:        "ResourceQuotas",
		{Group: "apps.kruise.io", Kind: "AdvancedCronJob"}:           "CronJob",
		{Group: "argoproj.io", Kind: "Application"}:                  "jobctl apply -f",
		{Group: "example.com", Kind: "Widget"}:                       "jobd runs Jobs and does not have the kind Widget (example.com)",
	} {
		if said := Refusal(kind); !strings.Contains(said, words) {
			t.Errorf("%s: %s", kind, said)
		}
	}
	if said := Refusal(schema.GroupKind{Group: "example.com", Kind: "Widget"}); strings.Contains(said, ": ") {
		t.Errorf("it advises on a kind that nobody knows: %s", said)
	}
}
