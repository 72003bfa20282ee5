package oci

import (
	"slices"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"
)

func TestMounts(t *testing.T) {
	find := func(spec *specs.Spec, destination string) *specs.Mount {
		for i := range spec.Mounts {
			if spec.Mounts[i].Destination == destination {
				return &spec.Mounts[i]
			}
		}
		return nil
	}
	files := func(in *Input) {
		in.Files = Files{Hosts: "/s/hosts", Hostname: "/s/hostname", ResolvConf: "/s/resolv", TerminationLog: "/s/message"}
		in.Container.TerminationMessagePath = "/dev/termination-log"
	}
	t.Run("the pod's files lie over the image's", func(t *testing.T) {
		spec := specOf(t, files)
		for destination, source := range map[string]string{
			"/etc/hosts": "/s/hosts", "/etc/hostname": "/s/hostname", "/etc/resolv.conf": "/s/resolv",
			"/dev/termination-log": "/s/message",
		} {
			if m := find(spec, destination); m == nil || m.Source != source {
				t.Errorf("%s: %+v", destination, m)
			}
		}
		if spec.Annotations[AnnotationTerminationLog] != "/s/message" {
			t.Error("the runtime is not told of the termination message")
		}
	})
	t.Run("on a read-only root they are read-only, but for the message", func(t *testing.T) {
		spec := specOf(t, func(in *Input) {
			files(in)
			in.Container.SecurityContext = &corev1.SecurityContext{ReadOnlyRootFilesystem: ptr(true)}
		})
		if !slices.Contains(find(spec, "/etc/hosts").Options, "ro") || !slices.Contains(find(spec, "/dev/termination-log").Options, "rw") {
			t.Errorf("got %+v", spec.Mounts)
		}
	})
	t.Run("a volume takes the place of a mount of ours", func(t *testing.T) {
		spec := specOf(t, func(in *Input) {
			files(in)
			in.SharedMemory = "/s/shm"
			in.Mounts = []specs.Mount{{Destination: "/etc/hosts", Source: "/own"}, {Destination: "/dev/shm/", Source: "/shm"}}
		})
		if m := find(spec, "/etc/hosts"); m.Source != "/own" {
			t.Errorf("got %+v", m)
		}
		if m := find(spec, "/dev/shm"); m != nil {
			t.Errorf("got %+v", m)
		}
	})
	t.Run("/dev/shm is the pod's, with its users", func(t *testing.T) {
		spec := specOf(t, func(in *Input) {
			in.SharedMemory = "/s/shm"
			in.Users = &specs.LinuxIDMapping{HostID: 1 << 16, Size: 1 << 16}
			in.Namespaces = map[specs.LinuxNamespaceType]string{specs.UserNamespace: "/s/user"}
		})
		m := find(spec, "/dev/shm")
		if m == nil || m.Source != "/s/shm" || m.Type != "bind" || len(m.UIDMappings) != 1 || len(m.GIDMappings) != 1 {
			t.Fatalf("got %+v", m)
		}
		for _, option := range []string{"nosuid", "noexec", "nodev"} {
			if !slices.Contains(m.Options, option) {
				t.Errorf("without %s: %+v", option, m)
			}
		}
	})
	t.Run("/dev/shm is the container's own where the pod has none", func(t *testing.T) {
		if m := find(specOf(t, nil), "/dev/shm"); m == nil || m.Type != "tmpfs" {
			t.Errorf("got %+v", m)
		}
	})
	t.Run("/dev/shm is the host's with hostIPC", func(t *testing.T) {
		spec := specOf(t, func(in *Input) { in.Pod.Spec.HostIPC = true })
		if m := find(spec, "/dev/shm"); m == nil || m.Source != "/dev/shm" || m.Type != "bind" {
			t.Errorf("got %+v", m)
		}
	})
	t.Run("none hides another", func(t *testing.T) {
		spec := specOf(t, func(in *Input) {
			in.Mounts = []specs.Mount{{Destination: "/data/deep/er"}, {Destination: "/data"}, {Destination: "/data/deep"}}
		})
		for i, m := range spec.Mounts {
			for _, later := range spec.Mounts[i+1:] {
				if depth(later.Destination) < depth(m.Destination) && ofKernel(m.Destination) == ofKernel(later.Destination) {
					t.Errorf("%s comes after %s", later.Destination, m.Destination)
				}
			}
		}
	})
	t.Run("what the kernel shows covers volumes to which symlinks lead", func(t *testing.T) {
		spec := specOf(t, func(in *Input) {
			in.Mounts = []specs.Mount{{Destination: "/a/deep/link"}, {Destination: "/dev/shm/deep/er"}}
			in.Declared = []specs.Mount{{Destination: "/declared/deep"}}
		})
		at := func(destination string) int {
			return slices.IndexFunc(spec.Mounts, func(m specs.Mount) bool { return m.Destination == destination })
		}
		for _, volume := range []string{"/a/deep/link", "/declared/deep"} {
			for _, own := range []string{"/proc", "/dev", "/sys"} {
				if at(volume) > at(own) {
					t.Errorf("%s comes after %s", volume, own)
				}
			}
		}
		if at("/dev/shm/deep/er") < at("/dev/shm") {
			t.Error("a volume that is said to be there is covered")
		}
	})
	t.Run("no volume takes its place", func(t *testing.T) {
		for _, at := range []string{"/", "/dev", "//dev/.", "/dev/pts/", "/proc", "/proc/sys/net", "/sys", "/sys/fs", "/x/../dev"} {
			for _, mounts := range []func(*Input){
				func(in *Input) { in.Mounts = []specs.Mount{{Destination: at, Source: "/volume"}} },
				func(in *Input) { in.Declared = []specs.Mount{{Destination: at, Source: "/volume"}} },
			} {
				if _, err := Spec(input(mounts)); err == nil {
					t.Errorf("a volume at %s", at)
				}
				specOf(t, func(in *Input) {
					mounts(in)
					in.Container.SecurityContext = &corev1.SecurityContext{Privileged: ptr(true)}
				})
			}
		}
		specOf(t, func(in *Input) {
			in.Mounts = []specs.Mount{{Destination: "/dev/", Source: "/dev"}, {Destination: "/dev/shm", Source: "/shm"}}
		})
	})
	t.Run("/sys is read-only unless privileged", func(t *testing.T) {
		if !slices.Contains(find(specOf(t, nil), "/sys").Options, "ro") {
			t.Error("writable")
		}
		if !slices.Contains(find(specOf(t, context(&corev1.SecurityContext{Privileged: ptr(true)})), "/sys").Options, "rw") {
			t.Error("not writable")
		}
	})
}
