package core

// The description of the kind for the server. The rules are in pod_*.go.

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

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
		Table:      podTable(),
		Rules: kind.Rules[*corev1.Pod]{
			Create:      func(pod *corev1.Pod) { PreparePod(pod, time.Now()) },
			Update:      preparePodUpdate,
			Check:       func(pod *corev1.Pod) field.ErrorList { return append(ValidatePod(pod), checkPodSize(pod)...) },
			CheckUpdate: andGrowth(validatePodUpdate),
			Warn:        podWarnings,
			Grace:       podGrace,
			Reset:       kind.Path("status"),
		},
		Subresources: map[string]kind.Rules[*corev1.Pod]{
			"ephemeralcontainers": {
				Update:      prepareEphemeralContainersUpdate,
				CheckUpdate: andGrowth(validateEphemeralContainersUpdate),
				Reset:       exceptEphemeralContainers(),
			},
			"resize": {
				Update:      preparePodResize,
				CheckUpdate: andGrowth(validatePodResize),
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

// andGrowth returns the rule, and that of the size of pods.
func andGrowth(rule func(pod, old *corev1.Pod) field.ErrorList) func(pod, old *corev1.Pod) field.ErrorList {
	return func(pod, old *corev1.Pod) field.ErrorList { return append(rule(pod, old), checkPodGrowth(pod, old)...) }
}
