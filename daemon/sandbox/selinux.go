package sandbox

import (
	"fmt"

	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/opencontainers/selinux/go-selinux"
	"github.com/opencontainers/selinux/go-selinux/label"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/worker"
	"github.com/jobd/jobd/runtime/oci"
)

// SELinux returns what makes labels from options (Specs.SELinux); nil where the host has no SELinux.
func SELinux() func(options []string) (process, mount string, err error) {
	if !selinux.GetEnabled() {
		return nil
	}
	return label.InitLabels
}

// relabel gives a container's label to what jobd has made for its pod, since the container could not use it otherwise.
// What a pod may have written is not walked through: its files inherit the label of their directory. The host's own paths
// are left as they are, as by a kubelet.
func relabel(spec *specs.Spec, files oci.Files, declared []specs.Mount, in worker.SpecInput) error {
	to := spec.Linux.MountLabel
	if to == "" {
		return nil
	}
	set := func(path string, set func() error) error {
		if err := set(); err != nil {
			return fmt.Errorf("SELinux label of %s: %w", path, err)
		}
		return nil
	}
	paths := []string{files.Hosts, files.Hostname, files.ResolvConf, files.TerminationLog, in.Sandbox.SharedMemory}
	for _, m := range declared {
		paths = append(paths, m.Source) // what it is filled with inherits the label
	}
	for _, path := range paths {
		if path == "" {
			continue
		}
		if err := set(path, func() error { return label.SetFileLabel(path, to) }); err != nil {
			return err
		}
	}
	volumes := map[string]*corev1.Volume{}
	for i := range in.Pod.Spec.Volumes {
		volumes[in.Pod.Spec.Volumes[i].Name] = &in.Pod.Spec.Volumes[i]
	}
	labelled := map[string]bool{}
	for i, m := range in.Sandbox.Mounts[in.Container.Name] { // those of the volumeMounts, in their order
		volume := volumes[in.Container.VolumeMounts[i].Name]
		if volume == nil || labelled[volume.Name] {
			continue
		}
		labelled[volume.Name] = true
		var err error
		switch {
		case volume.EmptyDir != nil:
			err = set(m.Source, func() error { return label.SetFileLabel(m.Source, to) })
		case volume.ConfigMap != nil, volume.Secret != nil, volume.DownwardAPI != nil, volume.Projected != nil:
			err = set(m.Source, func() error { return label.Relabel(m.Source, to, false) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}
