package oci

import (
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"
)

func hostInput() Input {
	pod := &corev1.Pod{Spec: corev1.PodSpec{HostNetwork: true, Containers: []corev1.Container{{
		Name: "c", Image: "jobd.dev/host", Command: []string{"./train", "$(X)"}, WorkingDir: "/home/alice", TerminationMessagePath: "/dev/termination-log",
		Env: []corev1.EnvVar{{Name: "X", Value: "1"}},
		SecurityContext: &corev1.SecurityContext{
			Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_ADMIN"}}, AllowPrivilegeEscalation: ptr(true),
		},
	}}}}
	return Input{
		Pod: pod, Container: &pod.Spec.Containers[0], CgroupPath: "/jobd/c", Files: Files{TerminationLog: "/var/lib/jobd/pods/1/files/c.0.message"},
		Mounts: []specs.Mount{{
			Destination: "/tmp", Type: "bind", Source: "/var/lib/jobd/pods/1/volumes/emptydir/jobd-tmp", Options: []string{"rbind", "rprivate", "rw"},
		}},
		Host: Host{Capabilities: []string{"CAP_SYS_ADMIN", "CAP_CHOWN"}},
		Command: &HostCommand{
			Files: "/run/jobd/host", Program: "/usr/bin/jobd-shim", User: specs.User{UID: 1000, GID: 1000, AdditionalGids: []uint32{1000, 27}},
			Dirs: map[string][]string{"usr": {"relatime"}, "home": {"ro", "nosuid"}, "tmp": nil, "proc": nil, "sys": nil, "dev": nil, "jobd": nil},
		},
	}
}

func TestHostCommand(t *testing.T) {
	in := hostInput()
	spec, err := Spec(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Command.Check(spec); err != nil {
		t.Fatal(err)
	}
	p, caps := spec.Process, spec.Process.Capabilities
	if !p.NoNewPrivileges || len(caps.Bounding)+len(caps.Effective)+len(caps.Permitted) > 0 || p.User.UID != 1000 || p.Cwd != "/" {
		t.Errorf("the process is %+v", p)
	}
	if want := []string{"/dev/.jobd", "--host-command", "/home/alice", "--", "./train", "1"}; !slices.Equal(p.Args, want) {
		t.Errorf("the command is %q", p.Args)
	}
	if !spec.Root.Readonly || spec.Linux.RootfsPropagation != "rslave" || spec.Annotations[AnnotationHost] != "/run/jobd/host" {
		t.Errorf("the root is %+v, %s, %v", spec.Root, spec.Linux.RootfsPropagation, spec.Annotations)
	}
	places := map[string]specs.Mount{}
	for _, m := range spec.Mounts {
		if _, ok := places[m.Destination]; ok {
			t.Errorf("%s is mounted twice", m.Destination)
		}
		places[m.Destination] = m
	}
	for place, source := range map[string]string{
		"/usr": "/run/jobd/host/usr", "/home": "/run/jobd/host/home", "/tmp": in.Mounts[0].Source, "/proc": "proc", "/dev": "tmpfs", "/sys": "/sys",
		"/dev/.jobd": "/usr/bin/jobd-shim", "/dev/termination-log": in.Files.TerminationLog,
	} {
		if places[place].Source != source {
			t.Errorf("at %s is %+v", place, places[place])
		}
	}
	if got := places["/home"].Options; !slices.Equal(got, []string{"rbind", "rslave", "ro", "nosuid"}) {
		t.Errorf("/home has %v", got)
	}
	for _, place := range []string{"/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/jobd"} {
		if _, ok := places[place]; ok {
			t.Errorf("something is mounted at %s", place)
		}
	}
	// Root may have what it asks for, if it may at all.
	in = hostInput()
	in.Command.Root, in.Command.User = true, specs.User{}
	if spec, err = Spec(in); err != nil || spec.Process.NoNewPrivileges || !slices.Contains(spec.Process.Capabilities.Bounding, "CAP_SYS_ADMIN") {
		t.Errorf("root: %v, %+v", err, spec.Process)
	}
	in.Pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: ptr(true)}
	if _, err = Spec(in); err == nil || !strings.Contains(err.Error(), "runAsNonRoot") {
		t.Errorf("root that must not be: %v", err)
	}
}

// Whatever comes so far: nothing that an OCI runtime would make in the host's files.
func TestNothingIsMountedInFilesOfTheHost(t *testing.T) {
	for name, change := range map[string]func(*specs.Spec){
		"below a directory":    func(s *specs.Spec) { s.Mounts = append(s.Mounts, specs.Mount{Destination: "/home/bob/new"}) },
		"by dots":              func(s *specs.Spec) { s.Mounts = append(s.Mounts, specs.Mount{Destination: "/dev/../home/bob"}) },
		"below /tmp":           func(s *specs.Spec) { s.Mounts = append(s.Mounts, specs.Mount{Destination: "/tmp/x"}) },
		"the root":             func(s *specs.Spec) { s.Mounts = append(s.Mounts, specs.Mount{Destination: "/"}) },
		"the root, relatively": func(s *specs.Spec) { s.Mounts = append(s.Mounts, specs.Mount{Destination: "."}) },
		"another directory":    func(s *specs.Spec) { s.Mounts = append(s.Mounts, specs.Mount{Destination: "/other"}) },
		"a device":             func(s *specs.Spec) { s.Linux.Devices = append(s.Linux.Devices, specs.LinuxDevice{Path: "/etc/card"}) },
		"a device by dots": func(s *specs.Spec) {
			s.Linux.Devices = append(s.Linux.Devices, specs.LinuxDevice{Path: "/dev/../etc/card"})
		},
		"a hook":      func(s *specs.Spec) { s.Hooks = &specs.Hooks{} },
		"other users": func(s *specs.Spec) { s.Linux.UIDMappings = []specs.LinuxIDMapping{{Size: 65536}} },
	} {
		in := hostInput()
		spec, err := Spec(in)
		if err != nil {
			t.Fatal(err)
		}
		change(spec)
		if in.Command.Check(spec) == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
