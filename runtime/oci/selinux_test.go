package oci

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestSELinux(t *testing.T) {
	labels := func(options []string) (string, string, error) {
		text := strings.Join(options, " ")
		if strings.Contains(text, "level:bad") {
			return "", "", errors.New("no such level")
		}
		return "process " + text, "mount " + text, nil
	}
	s0 := regexp.MustCompile(`level:s0:c\d+,c\d+ type:spc_t`)
	for rule, c := range map[string]struct {
		change         func(*Input)
		process, mount string
	}{
		"who asks for nothing gets nothing": {func(*Input) {}, "", ""},
		"the pod's options": {func(in *Input) {
			in.Pod.Spec.SecurityContext = &corev1.PodSecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Level: "s0:c1", User: "u"}}
		}, "process level:s0:c1 user:u", "mount level:s0:c1 user:u"},
		"the container's own in their place": {func(in *Input) {
			in.Pod.Spec.SecurityContext = &corev1.PodSecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Level: "s0:c1", User: "u"}}
			in.Container.SecurityContext = &corev1.SecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Level: "s0:c2", Role: "r"}}
		}, "process level:s0:c2 role:r", "mount level:s0:c2 role:r"},
		"a privileged container is not confined": {func(in *Input) {
			in.Container.SecurityContext = &corev1.SecurityContext{Privileged: ptr(true), SELinuxOptions: &corev1.SELinuxOptions{Level: "s0:c2"}}
		}, "", "mount level:s0:c2"},
		"no effect without SELinux": {func(in *Input) {
			in.SELinux = nil
			in.Container.SecurityContext = &corev1.SecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Level: "s0:c2"}}
		}, "", ""},
	} {
		t.Run(rule, func(t *testing.T) {
			spec := specOf(t, func(in *Input) {
				in.SELinux = labels
				c.change(in)
			})
			if spec.Process.SelinuxLabel != c.process || spec.Linux.MountLabel != c.mount {
				t.Errorf("got %q and %q", spec.Process.SelinuxLabel, spec.Linux.MountLabel)
			}
		})
	}
	t.Run("all containers of a pod share its level", func(t *testing.T) {
		asked := &corev1.SELinuxOptions{Type: "spc_t"}
		a, b := &corev1.Pod{}, &corev1.Pod{}
		a.UID, b.UID = "a", "b"
		first, again, other := labelOptions(a, asked), labelOptions(a, asked), labelOptions(b, asked)
		if text := strings.Join(first, " "); text != strings.Join(again, " ") || !s0.MatchString(text) || first[0] == other[0] {
			t.Errorf("%v, %v, and of another pod %v", first, again, other)
		}
	})
	t.Run("what the host does not know is an error", func(t *testing.T) {
		in := input(nil)
		in.SELinux = labels
		in.Container.SecurityContext = &corev1.SecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Level: "bad"}}
		if _, err := Spec(in); err == nil || !strings.Contains(err.Error(), "seLinuxOptions: no such level") {
			t.Errorf("%v", err)
		}
	})
}
