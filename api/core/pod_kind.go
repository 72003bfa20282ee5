package core

// The description of the kind for the server. The rules are in pod_*.go.

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/kind"
)

// PodKind describes v1 Pods.
func PodKind() *kind.Kind {
	return kind.Of[corev1.Pod, corev1.PodList](kind.Description[*corev1.Pod]{
		GroupVersion: corev1.SchemeGroupVersion,
		Name:         "Pod",
		ShortNames:   []string{"po"}, Categories: []string{"all"},
		Namespaced: true,
		Default:    SetPodDefaults,
		Fields:     podFields(),
		Columns:    podColumns(),
		Cells:      podCells,
		Rules: kind.Rules[*corev1.Pod]{
			Create:      func(pod *corev1.Pod) { PreparePod(pod, time.Now()) },
			Update:      preparePodUpdate,
			Check:       ValidatePod,
			CheckUpdate: validatePodUpdate,
			Warn:        podWarnings,
			Grace:       podGrace,
			Reset:       kind.Path("status"),
		},
		Subresources: map[string]kind.Rules[*corev1.Pod]{
			"ephemeralcontainers": {
				Update:      prepareEphemeralContainersUpdate,
				CheckUpdate: validateEphemeralContainersUpdate,
				Reset:       exceptEphemeralContainers(),
			},
			"resize": {
				Update:      preparePodResize,
				CheckUpdate: validatePodResize,
			},
			"status": {
				Update:      preparePodStatusUpdate,
				CheckUpdate: validatePodStatusUpdate,
				Reset: kind.Path("spec").Union(kind.Path("metadata", "deletionTimestamp")).
					Union(kind.Path("metadata", "ownerReferences")),
			},
		},
	})
}
