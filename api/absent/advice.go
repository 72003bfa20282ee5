package absent

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// advice says what people do on one machine instead of what a kind is for in a cluster.
var advice = map[schema.GroupKind]string{
	{Kind: "Endpoints"}:                                                             "EndpointSlices are made for the pods of Services",
	{Kind: "ReplicationController"}:                                                 keepRunning,
	{Group: "apps", Kind: "DaemonSet"}:                                              keepRunning,
	{Group: "apps", Kind: "Deployment"}:                                             keepRunning,
	{Group: "apps", Kind: "ReplicaSet"}:                                             keepRunning,
	{Group: "apps", Kind: "StatefulSet"}:                                            keepRunning,
	{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}:                         "set spec.parallelism of the Job",
	{Group: "networking.k8s.io", Kind: "Ingress"}:                                   "use a hostPort of the pod, or jobctl port-forward",
	{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}:               "jobctl kubeconfig makes certificates for people",
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"}: noWebhooks,
	{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"}:   noWebhooks,
	{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:               "nothing would act on objects of further kinds",
	{Group: "apps.kruise.io", Kind: "AdvancedCronJob"}:                              cronJob,
	{Group: "apps.kruise.io", Kind: "BroadcastJob"}:                                 "make it a Job: there is one node",
	{Group: "argoproj.io", Kind: "Application"}:                                     files,
	{Group: "argoproj.io", Kind: "ApplicationSet"}:                                  files,
	{Group: "argoproj.io", Kind: "AppProject"}:                                      "ResourceQuotas and roles are those of a namespace",
	{Group: "argoproj.io", Kind: "CronWorkflow"}:                                    cronJob,
	{Group: "argoproj.io", Kind: "Rollout"}:                                         keepRunning,
	{Group: "execution.furiko.io", Kind: "JobConfig"}:                               cronJob,
	{Group: "keda.sh", Kind: "ScaledJob"}:                                           "make it a Job without completions, whose pods take work from the queue until it is empty, or a CronJob",
	{Group: "keda.sh", Kind: "ScaledObject"}:                                        "set spec.parallelism of the Job",
	{Group: "kubeflow.org", Kind: "Experiment"}:                                     trials,
	{Group: "kubeflow.org", Kind: "Notebook"}:                                       keepRunning,
	{Group: "ray.io", Kind: "RayService"}:                                           keepRunning,
	{Group: "batch.volcano.sh", Kind: "Job"}:                                        training,
	{Group: "flink.apache.org", Kind: "FlinkDeployment"}:                            keepRunning,
	{Group: "serving.knative.dev", Kind: "Service"}:                                 keepRunning,
	{Group: "sparkoperator.k8s.io", Kind: "ScheduledSparkApplication"}:              spark + ", from a CronJob",
	{Group: "sparkoperator.k8s.io", Kind: "SparkApplication"}:                       spark,
}

// adviceFor is for groups of which all kinds are for the same.
var adviceFor = map[string]string{
	"argoproj.io":              steps,
	"batch.volcano.sh":         training,
	"codeflare.dev":            queues,
	"elastic.pytorch.org":      jobSet,
	"execution.furiko.io":      "make it a Job",
	"kubernetes.dask.org":      training,
	"pipelines.kubeflow.org":   steps,
	"pytorch.org":              jobSet,
	"workload.codeflare.dev":   queues,
	"kubeflow.org":             jobSet,
	"kueue.x-k8s.io":           queues,
	"ray.io":                   training,
	"scheduling.volcano.sh":    queues,
	"tekton.dev":               steps,
	"trainer.kubeflow.org":     jobSet,
	"leaderworkerset.x-k8s.io": jobSet,
}

const (
	cronJob     = "make it a CronJob"
	files       = "apply the files that it names: jobctl apply -f, or -k"
	trials      = "make it an Indexed Job, whose index says which parameters a pod tries"
	noWebhooks  = "nothing would call it"
	keepRunning = "make it a Job, or a unit of systemd if it is to run for ever"
	training    = "make it an Indexed Job: its pods know their index, find each other by name, and start together as a gang"
	jobSet      = "make it a JobSet (jobset.x-k8s.io/v1alpha2) with a replicatedJob for each role, such as launcher, master and workers: its pods find " +
		"each other by name, the label jobset.sigs.k8s.io/coordinator says where the first is, and failurePolicy.maxRestarts begins it anew; " +
		"for one role an Indexed Job is enough"
	spark  = "spark-submit --master k8s://ADDRESS --deploy-mode cluster starts its pods here"
	steps  = "make each step a Job, and run one after the other: jobctl submit ends with the exit code of the Job"
	queues = "pods wait by priority, and ResourceQuotas limit a namespace; a Job with a gang starts as a whole"
)

// homes are the API versions of kinds that jobd has and that manifests name under others: those of older clusters, or a
// group that was guessed.
var homes = map[string]schema.GroupVersion{
	"ClusterRole":         {Group: "rbac.authorization.k8s.io", Version: "v1"},
	"ClusterRoleBinding":  {Group: "rbac.authorization.k8s.io", Version: "v1"},
	"ConfigMap":           {Version: "v1"},
	"CronJob":             {Group: "batch", Version: "v1"},
	"Job":                 {Group: "batch", Version: "v1"},
	"JobSet":              {Group: "jobset.x-k8s.io", Version: "v1alpha2"},
	"NetworkPolicy":       {Group: "networking.k8s.io", Version: "v1"},
	"Pod":                 {Version: "v1"},
	"PodDisruptionBudget": {Group: "policy", Version: "v1"},
	"PriorityClass":       {Group: "scheduling.k8s.io", Version: "v1"},
	"Role":                {Group: "rbac.authorization.k8s.io", Version: "v1"},
	"RoleBinding":         {Group: "rbac.authorization.k8s.io", Version: "v1"},
	"Secret":              {Version: "v1"},
	"Service":             {Version: "v1"},
	"ServiceAccount":      {Version: "v1"},
	"StorageClass":        {Group: "storage.k8s.io", Version: "v1"},
}

// Moved says which apiVersion to write for a kind that jobd has, but not in the one given. It returns false if jobd does
// not have the kind at all. A group with a domain of its own, such as batch.volcano.sh, is another's: what it calls a Job
// is something else.
func Moved(k schema.GroupVersionKind) (string, bool) {
	home, ok := homes[k.Kind]
	if builtIn := !strings.Contains(k.Group, ".") || strings.HasSuffix(k.Group, ".k8s.io"); !ok || !builtIn || home == k.GroupVersion() {
		return "", false
	}
	return fmt.Sprintf("there is no %s in %s: write apiVersion: %s", k.Kind, k.GroupVersion(), home), true
}

// Advised reports whether people are told what to do instead of what a kind is for in a cluster. jobd has no such kind.
func Advised(k schema.GroupKind) bool { return cmp.Or(advice[k], adviceFor[k.Group]) != "" }

// Refusal says that jobd does not have a kind, and what to use instead if there is something.
func Refusal(k schema.GroupKind) string {
	text := "jobd runs Jobs and does not have the kind " + k.Kind
	if k.Group != "" {
		text += " (" + k.Group + ")"
	}
	if instead := cmp.Or(advice[k], adviceFor[k.Group]); instead != "" {
		text += ": " + instead
	}
	return text
}
