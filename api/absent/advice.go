package absent

import "k8s.io/apimachinery/pkg/runtime/schema"

// advice says what people do on one machine instead of what a kind is for in a cluster.
var advice = map[schema.GroupKind]string{
	{Kind: "Endpoints"}:                                               "EndpointSlices are made for the pods of Services",
	{Kind: "ReplicationController"}:                                   keepRunning,
	{Group: "apps", Kind: "DaemonSet"}:                                keepRunning,
	{Group: "apps", Kind: "Deployment"}:                               keepRunning,
	{Group: "apps", Kind: "ReplicaSet"}:                               keepRunning,
	{Group: "apps", Kind: "StatefulSet"}:                              keepRunning,
	{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}:           "set spec.parallelism of the Job",
	{Group: "networking.k8s.io", Kind: "Ingress"}:                     "use a hostPort of the pod, or jobctl port-forward",
	{Group: "networking.k8s.io", Kind: "NetworkPolicy"}:               "the traffic of pods is not filtered",
	{Group: "policy", Kind: "PodDisruptionBudget"}:                    "drains and evictions follow no budget",
	{Kind: "ResourceQuota"}:                                           "--allocatable of jobd limits what all pods request together",
	{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}: "jobctl kubeconfig makes certificates for people",
	{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}: "nothing would act on objects of further kinds",
}

const (
	keepRunning = "make it a Job, or a unit of systemd if it is to run for ever"
)

// Refusal says that jobd does not have a kind, and what to use instead if there is something.
func Refusal(k schema.GroupKind) string {
	text := "jobd runs Jobs and does not have the kind " + k.Kind
	if k.Group != "" {
		text += " (" + k.Group + ")"
	}
	if instead, ok := advice[k]; ok {
		text += ": " + instead
	}
	return text
}
