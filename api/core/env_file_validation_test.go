package core

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

func TestEnvFromFile(t *testing.T) {
	for _, c := range []struct{ name, ref, want string }{
		{"of an emptyDir", `{volumeName: v, path: a/b.env, key: K}`, ""},
		{"all is needed", `{}`, "fileKeyRef.volumeName: Required fileKeyRef.path: Required fileKeyRef.key: Required"},
		{"of a volume that is there", `{volumeName: other, path: a, key: K}`, "fileKeyRef.volumeName: Not found"},
		{"that has a name of volumes", `{volumeName: A, path: a, key: K}`, "fileKeyRef.volumeName: Invalid value fileKeyRef.volumeName: Not found"},
		{"in which the pod can write", `{volumeName: c, path: a, key: K}`, "fileKeyRef.volumeName: Invalid value"},
		{"within the volume", `{volumeName: v, path: /a, key: K}`, "fileKeyRef.path: Invalid value"},
		{"not out of it", `{volumeName: v, path: a/../../b, key: K}`, "fileKeyRef.path: Invalid value"},
		{"under a name that a variable can have", `{volumeName: v, path: a, key: "a=b"}`, "fileKeyRef.key: Invalid value"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ref := &corev1.FileKeySelector{}
			if err := yaml.UnmarshalStrict([]byte(c.ref), ref); err != nil {
				t.Fatal(err)
			}
			p := &podContext{volumes: map[string]*corev1.Volume{
				"v": {VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				"c": {VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}},
			}}
			var got []string
			for _, e := range p.envFiles([]corev1.EnvVar{{Name: "X", ValueFrom: &corev1.EnvVarSource{FileKeyRef: ref}}}, field.NewPath("env")) {
				short := strings.TrimPrefix(e.Error(), "env[0].valueFrom.")
				at, rest, _ := strings.Cut(short, ": ")
				kind, _, _ := strings.Cut(rest, ":")
				got = append(got, at+": "+strings.TrimSuffix(kind, " value"))
				if kind == "Invalid value" {
					got[len(got)-1] = at + ": " + kind
				}
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("got %q", s)
			}
		})
	}
}
