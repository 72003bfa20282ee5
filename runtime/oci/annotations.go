package oci

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// Annotations of a spec. The first four are those that containerd's CRI plugin writes, so that tools which know them
// find the pod.
const (
	AnnotationPodNamespace  = "io.kubernetes.cri.sandbox-namespace"
	AnnotationPodName       = "io.kubernetes.cri.sandbox-name"
	annotationPodUID        = "io.kubernetes.cri.sandbox-uid"
	annotationContainerName = "io.kubernetes.cri.container-name"
	// AnnotationTerminationLog is the path on the host of the container's termination message.
	AnnotationTerminationLog = "jobd.dev/termination-log"
	// AnnotationHost is where the mounts of a container that runs a command of the host find the host's files.
	AnnotationHost = "jobd.dev/host-files"
	// AnnotationLogin is the number of the user of the host whom the kernel's audit log names for what a container does.
	AnnotationLogin = "jobd.dev/login"
	// annotationGroupsPolicy is set to Strict where the groups that /etc/group gives to the user are not taken.
	annotationGroupsPolicy = "jobd.dev/supplemental-groups-policy"
	// annotationDeclared is what DeclaredVolumes returns, in JSON.
	annotationDeclared = "jobd.dev/image-volumes"
	// annotationApart has the places of the volumes that VolumesApart returns, in JSON.
	annotationApart = "jobd.dev/volumes-apart"
)

// FilledMark ends the name of a symlink beside a directory of DeclaredVolumes, which says that this was filled and where in
// the container it is.
const FilledMark = ".filled"

// DeclaredVolumes returns the directories of the host that are to be filled with what the image has at a path, before the
// container is started.
func DeclaredVolumes(spec *specs.Spec) (places map[string]string, err error) {
	text, ok := spec.Annotations[annotationDeclared]
	if !ok {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &places); err != nil {
		return nil, fmt.Errorf("volumes of the image: %w", err)
	}
	return places, nil
}

// VolumesApart returns the places of a container's volumes if nothing may be mounted, or made, in any of them: the OCI runtime makes
// what is missing of a place as root, and some of them show paths of the host in which only a user may do so.
func VolumesApart(spec *specs.Spec) (places []string, err error) {
	text, ok := spec.Annotations[annotationApart]
	if !ok {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &places); err != nil {
		return nil, fmt.Errorf("places of volumes: %w", err)
	}
	return places, nil
}

func annotations(in Input) map[string]string {
	out := map[string]string{
		AnnotationPodNamespace:  in.Pod.Namespace,
		AnnotationPodName:       in.Pod.Name,
		annotationPodUID:        string(in.Pod.UID),
		annotationContainerName: in.Container.Name,
	}
	if in.Files.TerminationLog != "" {
		out[AnnotationTerminationLog] = in.Files.TerminationLog
	}
	if in.Command != nil {
		out[AnnotationHost] = in.Command.Files
	}
	if in.Login != nil {
		out[AnnotationLogin] = strconv.FormatUint(uint64(*in.Login), 10)
	}
	if policy := podSecurity(in.Pod).SupplementalGroupsPolicy; policy != nil && *policy == strict {
		out[annotationGroupsPolicy] = string(strict)
	}
	if len(in.Declared) > 0 {
		places := map[string]string{}
		for _, m := range in.Declared {
			places[m.Source] = m.Destination
		}
		text, _ := json.Marshal(places) // cannot fail
		out[annotationDeclared] = string(text)
	}
	if in.VolumesApart {
		places := []string{}
		for _, m := range slices.Concat(in.Mounts, in.Declared) {
			places = append(places, m.Destination)
		}
		text, _ := json.Marshal(places) // cannot fail
		out[annotationApart] = string(text)
	}
	return out
}
