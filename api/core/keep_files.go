package core

import (
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/jobd/jobd/api/conditions"
)

// KeepFilesAnnotation of a pod says for how long after its end the files of its containers and its emptyDirs are kept, as
// a duration ("1h"), so that they can be copied out of it (pods/files). They go earlier with the pod's object, when the
// disk is nearly full, or when many pods that ended later keep theirs. Where a ResourceQuota limits ephemeral storage the pod
// goes on using what it requests of it, and keeps no more than that.
const KeepFilesAnnotation = "jobd.dev/keep-files"

// maxKeepFiles is the longest time for which files are kept.
const maxKeepFiles = 7 * 24 * time.Hour

// KeepFiles returns how long the files of a pod are kept after its end, 0 for not at all.
func KeepFiles(annotations map[string]string) (time.Duration, error) {
	value, ok := annotations[KeepFilesAnnotation]
	if !ok {
		return 0, nil
	}
	d, err := time.ParseDuration(value)
	if err != nil {
		return 0, errors.New(`must be a duration such as "30m" or "1h"`)
	}
	if d <= 0 || d > maxKeepFiles {
		return 0, errors.New("must be longer than 0 and at most 168h")
	}
	return d, nil
}

// KeepsFiles reports whether a pod has ended and is to keep its files, which are still there.
func KeepsFiles(p *corev1.Pod) bool {
	if p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
		return false
	}
	if keep, err := KeepFiles(p.Annotations); err != nil || keep == 0 {
		return false
	}
	up := conditions.Find(p.Status.Conditions, corev1.PodReadyToStartContainers)
	return up != nil && up.Status == corev1.ConditionTrue
}

// InMemory reports whether a pod has an emptyDir in memory, which it cannot keep after its end.
func InMemory(spec *corev1.PodSpec) bool {
	return slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool {
		return v.EmptyDir != nil && v.EmptyDir.Medium != corev1.StorageMediumDefault
	})
}

func validateKeepFiles(annotations map[string]string, spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	keep, err := KeepFiles(annotations)
	if err == nil && keep > 0 && InMemory(spec) {
		err = errors.New("files cannot be kept of a pod with an emptyDir whose medium is memory")
	}
	if err != nil {
		return field.ErrorList{field.Invalid(path.Key(KeepFilesAnnotation), annotations[KeepFilesAnnotation], err.Error())}
	}
	return nil
}
