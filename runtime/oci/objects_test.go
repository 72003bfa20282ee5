package oci

import (
	"fmt"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"
)

type largeObjects struct{}

func (largeObjects) ConfigMap(_, _ string) (*corev1.ConfigMap, error) {
	return &corev1.ConfigMap{Data: map[string]string{"k": "x"}, BinaryData: map[string][]byte{"b": make([]byte, 1<<20)}}, nil
}

func (largeObjects) Secret(_, _ string) (*corev1.Secret, error) {
	return &corev1.Secret{Data: map[string][]byte{"k": []byte("x"), "b": make([]byte, 1<<20)}}, nil
}

// Of each object, and of each file, a variable takes one byte.
func TestWhatVariablesAreReadFromIsBounded(t *testing.T) {
	for name, from := range map[string]func(name string) *corev1.EnvVarSource{
		"ConfigMaps": func(name string) *corev1.EnvVarSource {
			return &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: "k"}}
		},
		"Secrets": func(name string) *corev1.EnvVarSource {
			return &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: "k"}}
		},
		"files": func(name string) *corev1.EnvVarSource {
			return &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{VolumeName: "v", Path: name, Key: "k"}}
		},
	} {
		for n, refused := range map[int]bool{30: false, 33: true} {
			in := input(container(func(c *corev1.Container) {
				for i := range n {
					for range 3 {
						c.Env = append(c.Env, corev1.EnvVar{Name: "X", ValueFrom: from(fmt.Sprint("o", i))})
					}
				}
			}))
			in.Objects = largeObjects{}
			in.VolumeFile = func(_, _ string) ([]byte, error) { return []byte("k='x'\n#" + strings.Repeat("x", 1<<20)), nil }
			_, err := Spec(in)
			if got := errdefs.IsResourceExhausted(err) &&
				strings.Contains(err.Error(), "take more than 33554432 bytes together"); got != refused || !got && err != nil {
				t.Errorf("%d %s: %v", n, name, err)
			}
		}
	}
}
