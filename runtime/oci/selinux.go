package oci

import (
	"fmt"
	"hash/fnv"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"
)

// seLinuxOptions returns what a container asks of SELinux: its own options, or else the pod's
// (SecurityContext.SELinuxOptions); nil if neither is set.
func seLinuxOptions(pod *corev1.Pod, c *corev1.Container) *corev1.SELinuxOptions {
	if own := security(c).SELinuxOptions; own != nil {
		return own
	}
	return podSecurity(pod).SELinuxOptions
}

// addSELinux labels the process of a container, and what is mounted for it, as it asks. It has no effect on a host
// without SELinux. A privileged container is not confined, as with containerd.
func addSELinux(in Input, spec *specs.Spec) error {
	asked := seLinuxOptions(in.Pod, in.Container)
	if asked == nil || in.SELinux == nil {
		return nil
	}
	process, mount, err := in.SELinux(labelOptions(in.Pod, asked))
	if err != nil {
		return fmt.Errorf("seLinuxOptions: %w: %w", err, errdefs.ErrInvalidArgument)
	}
	if !privileged(in.Container) {
		spec.Process.SelinuxLabel = process
	}
	spec.Linux.MountLabel = mount
	return nil
}

// labelOptions returns options in the syntax of go-selinux. The containers of a pod that names no level share one, so
// that they can use the pod's volumes: it follows from the pod's UID, and so is the same after a restart.
func labelOptions(pod *corev1.Pod, asked *corev1.SELinuxOptions) []string {
	level := asked.Level
	if level == "" {
		const categories = 1024 // of the policies of all distributions
		sum := fnv.New32a()
		_, _ = sum.Write([]byte(pod.UID))
		first := sum.Sum32() % (categories - 1)
		second := first + 1 + (sum.Sum32()>>10)%(categories-1-first)
		level = fmt.Sprintf("s0:c%d,c%d", first, second)
	}
	options := []string{"level:" + level}
	for _, o := range []struct{ name, value string }{{"user", asked.User}, {"role", asked.Role}, {"type", asked.Type}} {
		if o.value != "" {
			options = append(options, o.name+":"+o.value)
		}
	}
	return options
}
