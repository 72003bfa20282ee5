package oci

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/core"
)

// FuzzFieldPath checks that a field of the pod that the API accepts in a variable or a file can be given to it.
func FuzzFieldPath(f *testing.F) {
	for _, path := range []string{
		"metadata.name", "metadata.labels['a']", "metadata.annotations['a/b']", "metadata.labels", "status.podIPs",
		"spec.nodeName", "metadata.labels['']", "metadata.name['a']", "status.hostIP", "limits.cpu", "",
	} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		ref := &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}
		in := input(func(in *Input) {
			in.Container.Env = []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{FieldRef: ref}}}
		})
		file := corev1.DownwardAPIVolumeFile{Path: "f", FieldRef: ref}
		in.Pod.Spec.Volumes = []corev1.Volume{
			{Name: "v", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{file}}}},
		}
		refused := func(where string) bool {
			for _, err := range core.PodKind().Strategy.Validate(t.Context(), in.Pod) {
				if strings.Contains(err.Field, where) {
					return true
				}
			}
			return false
		}
		_, err := environment(in)
		if accepted := !refused(".env["); accepted && err != nil {
			t.Errorf("the variable is accepted: %v", err)
		}
		if _, err := FileContent(in, &file); !refused(".downwardAPI") && err != nil {
			t.Errorf("the file is accepted: %v", err)
		}
	})
}
