package oci

// Annotations of a spec. The first four are those that containerd's CRI plugin writes, so that tools which know them
// find the pod.
const (
	AnnotationPodNamespace  = "io.kubernetes.cri.sandbox-namespace"
	AnnotationPodName       = "io.kubernetes.cri.sandbox-name"
	AnnotationPodUID        = "io.kubernetes.cri.sandbox-uid"
	AnnotationContainerName = "io.kubernetes.cri.container-name"
	// AnnotationTerminationLog is the path on the host of the container's termination message.
	AnnotationTerminationLog = "jobd.dev/termination-log"
	// AnnotationGroupsPolicy is set to Strict where the groups that /etc/group gives to the user are not taken.
	AnnotationGroupsPolicy = "jobd.dev/supplemental-groups-policy"
)

func annotations(in Input) map[string]string {
	out := map[string]string{
		AnnotationPodNamespace:  in.Pod.Namespace,
		AnnotationPodName:       in.Pod.Name,
		AnnotationPodUID:        string(in.Pod.UID),
		AnnotationContainerName: in.Container.Name,
	}
	if in.Files.TerminationLog != "" {
		out[AnnotationTerminationLog] = in.Files.TerminationLog
	}
	if policy := podSecurity(in.Pod).SupplementalGroupsPolicy; policy != nil && *policy == strict {
		out[AnnotationGroupsPolicy] = string(strict)
	}
	return out
}
