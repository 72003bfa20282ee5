package oci

import (
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"
)

func TestCheckTexts(t *testing.T) {
	const nul = "a\x00b"
	for _, c := range []struct {
		name   string
		change func(*Input)
		add    func(*specs.Spec) // what others add to the spec
		want   string
	}{
		{"none", func(*Input) {}, nil, ""},
		{"a variable", container(func(c *corev1.Container) { c.Env = []corev1.EnvVar{{Name: "PASSWORD", Value: nul}} }), nil, `variable "PASSWORD"`},
		{"a variable of the image", func(in *Input) { in.Image.Env = []string{"KEY=" + nul} }, nil, `variable "KEY"`},
		{"a variable of a device", nil, func(s *specs.Spec) { s.Process.Env = append(s.Process.Env, "GPU="+nul) }, `variable "GPU"`},
		{"the command", container(func(c *corev1.Container) { c.Command = []string{"sh", nul} }), nil, `argument 1 of the command`},
		{"an argument", container(func(c *corev1.Container) { c.Args = []string{nul} }), nil, `argument 1 of the command`},
		{"the image's command", func(in *Input) { in.Container.Command, in.Image.Entrypoint = nil, []string{nul} }, nil, `argument 0 of the command`},
		{"the working directory", container(func(c *corev1.Container) { c.WorkingDir = "/" + nul }), nil, `working directory`},
		{"the image's working directory", func(in *Input) { in.Image.WorkingDir = "/" + nul }, nil, `working directory`},
		{"a mount", func(in *Input) { in.Mounts = []specs.Mount{{Destination: "/" + nul, Source: "/x", Type: "bind"}} }, nil, `the mount of "/x" at "/a\x00b"`},
		{"what is mounted", func(in *Input) { in.Mounts = []specs.Mount{{Destination: "/x", Source: "/" + nul, Type: "bind"}} }, nil, `at "/x"`},
		{"a sysctl", func(in *Input) {
			in.Pod.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "kernel.shm_rmid_forced", Value: nul}}}
		}, nil, `sysctl "kernel.shm_rmid_forced"`},
		{"a device", nil, func(s *specs.Spec) { s.Linux.Devices = []specs.LinuxDevice{{Path: "/dev/" + nul}} }, `the path of device "/dev/a\x00b"`},
		{"an annotation", nil, func(s *specs.Spec) { s.Annotations = map[string]string{"x": nul} }, `annotation "x"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := specOf(t, func(in *Input) {
				if c.change != nil {
					c.change(in)
				}
			})
			if c.add != nil {
				c.add(spec)
			}
			switch err := CheckTexts(spec); {
			case err == nil && c.want != "":
				t.Errorf("it was taken, want an error about %s", c.want)
			case err != nil && (c.want == "" || !strings.Contains(err.Error(), c.want+" ") && !strings.Contains(err.Error(), c.want+",")):
				t.Errorf("%v, want one about %q", err, c.want)
			}
		})
	}
}
