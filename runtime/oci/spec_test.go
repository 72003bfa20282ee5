package oci

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	imagespec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// input is a pod of one container on a roomy host, changed as the case needs it.
func input(change func(*Input)) Input {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "work", Namespace: "default", UID: "12-34"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Command: []string{"true"}}}},
	}
	in := Input{
		Pod: pod, Container: &pod.Spec.Containers[0], CgroupPath: "/jobd/x", NodeName: "node",
		Host: Host{
			Capabilities: append([]string{"CAP_SYS_ADMIN", "CAP_NET_ADMIN"}, defaultCapabilities...),
			OpenFiles:    1 << 20, MayLowerOOMScore: true, Memory: 8 << 30,
		},
	}
	if change != nil {
		change(&in)
	}
	return in
}

func specOf(t *testing.T, change func(*Input)) *specs.Spec {
	t.Helper()
	spec, err := Spec(input(change))
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func ptr[T any](v T) *T { return &v }

func container(change func(*corev1.Container)) func(*Input) {
	return func(in *Input) { change(in.Container) }
}

func context(s *corev1.SecurityContext) func(*Input) {
	return container(func(c *corev1.Container) { c.SecurityContext = s })
}

func TestCommandLine(t *testing.T) {
	image := imagespec.ImageConfig{Entrypoint: []string{"/entry"}, Cmd: []string{"cmd", "$(A)"}}
	for _, c := range []struct {
		name          string
		command, args []string
		want          []string
	}{
		{"the image's own when the pod says nothing, never expanded", nil, nil, []string{"/entry", "cmd", "$(A)"}},
		{"args take the place of the image's command", nil, []string{"x"}, []string{"/entry", "x"}},
		{"a command drops the image's command too", []string{"c"}, nil, []string{"c"}},
		{"command and args leave nothing of the image's", []string{"c"}, []string{"x"}, []string{"c", "x"}},
		{"variables of the container are put in", []string{"c", "$(A)"}, []string{"$(A)$(B)", "$$(A)"}, []string{"c", "1", "1$(B)", "$(A)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := specOf(t, func(in *Input) {
				in.Image = image
				in.Image.Env = []string{"B=image"}
				in.Container.Command, in.Container.Args = c.command, c.args
				in.Container.Env = []corev1.EnvVar{{Name: "A", Value: "1"}}
			})
			if !slices.Equal(spec.Process.Args, c.want) {
				t.Errorf("got %q, want %q", spec.Process.Args, c.want)
			}
		})
	}
	t.Run("no command anywhere is an error", func(t *testing.T) {
		if _, err := Spec(input(container(func(c *corev1.Container) { c.Command = nil }))); !errors.Is(err, ErrNoCommand) {
			t.Errorf("got %v", err)
		}
	})
}

func TestWorkingDir(t *testing.T) {
	image := func(in *Input) { in.Image.WorkingDir = "/image" }
	for _, c := range []struct {
		name   string
		change func(*Input)
		want   string
	}{
		{"root when nobody says", nil, "/"},
		{"the image's", image, "/image"},
		{"the container's before the image's", func(in *Input) { image(in); in.Container.WorkingDir = "/own" }, "/own"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := specOf(t, c.change).Process.Cwd; got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestResources(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		out := corev1.ResourceList{}
		if cpu != "" {
			out[corev1.ResourceCPU] = resource.MustParse(cpu)
		}
		if memory != "" {
			out[corev1.ResourceMemory] = resource.MustParse(memory)
		}
		return out
	}
	for _, c := range []struct {
		name             string
		requests, limits corev1.ResourceList
		shares           uint64
		quota            int64 // 0: none
		memory           int64
	}{
		{"nothing asked: the fewest shares, no limit", nil, nil, 2, 0, 0},
		{"a request is shares of 1024 a CPU", list("250m", ""), nil, 256, 0, 0},
		{"a limit alone is a request too", nil, list("2", ""), 2048, 200000, 0},
		{"a tiny limit is what the kernel takes at least", nil, list("1m", ""), 2, 1000, 0},
		{"shares end at what the kernel takes", list("1000", ""), nil, 262144, 0, 0},
		{"memory", nil, list("", "64Mi"), 2, 0, 64 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := specOf(t, func(in *Input) {
				in.Container.Resources = corev1.ResourceRequirements{Requests: c.requests, Limits: c.limits}
				in.Host.SwapLimit = true
			}).Linux.Resources
			if *r.CPU.Shares != c.shares {
				t.Errorf("shares %d, want %d", *r.CPU.Shares, c.shares)
			}
			if (r.CPU.Quota == nil) != (c.quota == 0) || r.CPU.Quota != nil && *r.CPU.Quota != c.quota {
				t.Errorf("quota %v, want %d", r.CPU.Quota, c.quota)
			}
			if (r.Memory == nil) != (c.memory == 0) || r.Memory != nil && (*r.Memory.Limit != c.memory || *r.Memory.Swap != c.memory) {
				t.Errorf("memory %+v, want %d and no swap beyond it", r.Memory, c.memory)
			}
		})
	}
	t.Run("no swap limit where the kernel has none", func(t *testing.T) {
		r := specOf(t, container(func(c *corev1.Container) { c.Resources.Limits = list("", "1Mi") })).Linux.Resources
		if r.Memory.Swap != nil {
			t.Error("swap limited")
		}
	})
	t.Run("with cgroup v2 a container is killed as a whole", func(t *testing.T) {
		r := specOf(t, func(in *Input) { in.Host.CgroupV2 = true }).Linux.Resources
		if r.Unified["memory.oom.group"] != "1" {
			t.Error("not grouped")
		}
	})
}

func TestOverheadOfAPodComesOnTop(t *testing.T) {
	for _, tc := range []struct{ name, spec, want string }{
		{"no overhead", `{containers: [{resources: {requests: {cpu: 1}, limits: {cpu: 1, memory: 64Mi}}}]}`, "none"},
		{"on the sum of what containers may take", `{overhead: {cpu: 500m, memory: 16Mi}, containers: [
			{resources: {requests: {cpu: 500m}, limits: {cpu: 1, memory: 64Mi}}}, {resources: {requests: {cpu: 500m}, limits: {cpu: 1, memory: 48Mi}}}]}`,
			"shares 1536, quota 250000, memory 128Mi"},
		{"not where a container may take anything", `{overhead: {cpu: 500m, memory: 16Mi}, containers: [
			{resources: {requests: {cpu: 500m}, limits: {cpu: 1, memory: 64Mi}}}, {resources: {limits: {memory: 48Mi}}}]}`,
			"shares 1024, quota 0, memory 128Mi"},
		{"on what the whole pod may take", `{overhead: {cpu: 500m, memory: 16Mi}, resources: {requests: {cpu: 500m}, limits: {memory: 112Mi}}, containers: [{}]}`,
			"shares 1024, quota 0, memory 128Mi"},
		{"of a pod that asks for nothing", `{overhead: {cpu: 500m, memory: 16Mi}, containers: [{}]}`, "shares 2, quota 0, memory 0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{}}
			if err := yaml.UnmarshalStrict([]byte(tc.spec), &pod.Spec); err != nil {
				t.Fatal(err)
			}
			if tc.want == "shares 2, quota 0, memory 0" {
				pod.Status.QOSClass = corev1.PodQOSBestEffort
			}
			got := "none"
			if r := PodResources(pod, 0, Host{}); r != nil {
				memory := resource.NewQuantity(0, resource.BinarySI)
				if r.Memory != nil {
					memory.Set(*r.Memory.Limit)
				}
				quota := int64(0)
				if r.CPU.Quota != nil {
					quota = *r.CPU.Quota
				}
				got = fmt.Sprintf("shares %d, quota %d, memory %v", *r.CPU.Shares, quota, memory)
			}
			if got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestResourcesOfAPod(t *testing.T) {
	quantities := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	whole := func(in *Input) {
		in.Pod.Spec.Resources = &corev1.ResourceRequirements{Requests: quantities("500m", "600Mi"), Limits: quantities("2", "1Gi")}
	}
	in := input(whole)
	if r := PodResources(in.Pod, 7, in.Host); *r.CPU.Shares != 512 || *r.CPU.Quota != 200000 || *r.Memory.Limit != 1<<30 || *r.Pids.Limit != 7 {
		t.Errorf("the pod: %+v", r)
	}
	if r := PodResources(input(nil).Pod, 0, in.Host); r != nil {
		t.Errorf("one that says nothing: %+v", r)
	}
	if r := specOf(t, whole).Linux.Resources; *r.CPU.Shares != 2 || *r.CPU.Quota != 200000 || *r.Memory.Limit != 1<<30 {
		t.Errorf("a container of it that says nothing: %+v", r)
	}
	own := specOf(t, func(in *Input) {
		whole(in)
		in.Container.Resources = corev1.ResourceRequirements{Requests: quantities("100m", "1Mi"), Limits: quantities("1", "2Mi")}
	}).Linux.Resources
	if *own.CPU.Shares != 102 || *own.CPU.Quota != 100000 || *own.Memory.Limit != 2<<20 {
		t.Errorf("a container of it with limits of its own: %+v", own)
	}
	if got := *specOf(t, func(in *Input) {
		whole(in)
		in.Host.Memory, in.Host.MayLowerOOMScore = 1200<<20, true
		in.Pod.Status.QOSClass = corev1.PodQOSBurstable
	}).Process.OOMScoreAdj; got != 500 {
		t.Errorf("OOM score %d: what the pod asks for counts for its container", got)
	}
	value, err := resourceValue(in, &corev1.ResourceFieldSelector{Resource: "limits.memory", Divisor: resource.MustParse("1Mi")})
	if value != "1024" || err != nil {
		t.Errorf("the container is told of a limit of %s, %v", value, err)
	}
}

func TestOOMScore(t *testing.T) {
	burstable := func(memory string) func(*Input) {
		return func(in *Input) {
			in.Pod.Status.QOSClass = corev1.PodQOSBurstable
			in.Container.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}
		}
	}
	for _, c := range []struct {
		name   string
		change func(*Input)
		want   int
	}{
		{"BestEffort goes first", func(in *Input) { in.Pod.Status.QOSClass = corev1.PodQOSBestEffort }, 1000},
		{"Guaranteed goes last", func(in *Input) { in.Pod.Status.QOSClass = corev1.PodQOSGuaranteed }, -997},
		{"Burstable by its share of the memory", burstable("4Gi"), 500},
		{"Burstable never as Guaranteed", burstable("9Gi"), 3},
		{"Burstable never as BestEffort", burstable("1"), 999},
		{"never below our own without the privilege", func(in *Input) {
			in.Pod.Status.QOSClass = corev1.PodQOSGuaranteed
			in.Host.MayLowerOOMScore, in.Host.OOMScoreAdj = false, 10
		}, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := *specOf(t, c.change).Process.OOMScoreAdj; got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

func TestCapabilities(t *testing.T) {
	change := func(add, drop []corev1.Capability) func(*Input) {
		return context(&corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: add, Drop: drop}})
	}
	for _, c := range []struct {
		name   string
		change func(*Input)
		has    []string
		hasNot []string
	}{
		{"the default ones", nil, []string{"CAP_CHOWN", "CAP_KILL"}, []string{"CAP_SYS_ADMIN"}},
		{"one more", change([]corev1.Capability{"SYS_ADMIN"}, nil), []string{"CAP_SYS_ADMIN", "CAP_CHOWN"}, []string{"CAP_NET_ADMIN"}},
		{"a name with its prefix", change([]corev1.Capability{"CAP_SYS_ADMIN"}, nil), []string{"CAP_SYS_ADMIN"}, nil},
		{"one less", change(nil, []corev1.Capability{"KILL"}), []string{"CAP_CHOWN"}, []string{"CAP_KILL"}},
		{"all but what is added", change([]corev1.Capability{"KILL"}, []corev1.Capability{"ALL"}), []string{"CAP_KILL"}, []string{"CAP_CHOWN"}},
		{"all that the host has but what is dropped", change([]corev1.Capability{"ALL"}, []corev1.Capability{"KILL"}), []string{"CAP_SYS_ADMIN", "CAP_NET_ADMIN"}, []string{"CAP_KILL", "CAP_SYS_RESOURCE"}},
		{"without NET_RAW by default", func(in *Input) { in.DropNetRaw = true }, []string{"CAP_CHOWN"}, []string{"CAP_NET_RAW"}},
		{"without NET_RAW by default, which is added", func(in *Input) {
			change([]corev1.Capability{"NET_RAW"}, nil)(in)
			in.DropNetRaw = true
		}, []string{"CAP_CHOWN", "CAP_NET_RAW"}, nil},
		{"none that the host does not have", change([]corev1.Capability{"SYS_RESOURCE"}, nil), []string{"CAP_CHOWN"}, []string{"CAP_SYS_RESOURCE"}},
		{"all that the host has when privileged", context(&corev1.SecurityContext{Privileged: ptr(true)}), []string{"CAP_SYS_ADMIN"}, []string{"CAP_SYS_RESOURCE"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			caps := specOf(t, c.change).Process.Capabilities
			for _, set := range [][]string{caps.Bounding, caps.Effective, caps.Permitted} {
				for _, name := range c.has {
					if !slices.Contains(set, name) {
						t.Errorf("%s is missing", name)
					}
				}
				for _, name := range c.hasNot {
					if slices.Contains(set, name) {
						t.Errorf("%s is there", name)
					}
				}
			}
			if len(caps.Inheritable)+len(caps.Ambient) > 0 {
				t.Error("some pass to programs of other users")
			}
		})
	}
}

func TestNamespaces(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Input)
		want   []specs.LinuxNamespaceType
	}{
		{"all of its own", nil, []specs.LinuxNamespaceType{"mount", "pid", "ipc", "network", "uts"}},
		{"with cgroup v2 one for cgroups", func(in *Input) { in.Host.CgroupV2 = true }, []specs.LinuxNamespaceType{"mount", "pid", "ipc", "network", "uts", "cgroup"}},
		{"the host's network brings its name", func(in *Input) { in.Pod.Spec.HostNetwork = true }, []specs.LinuxNamespaceType{"mount", "pid", "ipc"}},
		{"the host's processes and IPC", func(in *Input) { in.Pod.Spec.HostPID, in.Pod.Spec.HostIPC = true, true }, []specs.LinuxNamespaceType{"mount", "network", "uts"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []specs.LinuxNamespaceType
			for _, n := range specOf(t, c.change).Linux.Namespaces {
				got = append(got, n.Type)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
	t.Run("shared ones are given by their path", func(t *testing.T) {
		spec := specOf(t, func(in *Input) {
			in.Namespaces = map[specs.LinuxNamespaceType]string{specs.NetworkNamespace: "/run/net"}
		})
		if !slices.Contains(spec.Linux.Namespaces, specs.LinuxNamespace{Type: specs.NetworkNamespace, Path: "/run/net"}) {
			t.Errorf("got %v", spec.Linux.Namespaces)
		}
	})
}

func TestHostname(t *testing.T) {
	long := "a123456789-123456789-123456789-123456789-123456789-123456789-1-3456789"
	for _, c := range []struct {
		name   string
		change func(*corev1.Pod)
		want   string
	}{
		{"the pod's name", func(*corev1.Pod) {}, "work"},
		{"spec.hostname before it", func(p *corev1.Pod) { p.Spec.Hostname = "own" }, "own"},
		{"spec.hostnameOverride before all that", func(p *corev1.Pod) {
			p.Spec.Hostname, p.Spec.Subdomain, p.Spec.HostnameOverride = "own", "sub", ptr("db.example.com")
		}, "db.example.com"},
		{"the node's in the host's network", func(p *corev1.Pod) { p.Spec.HostNetwork = true }, "node"},
		{"cut to 63, and never at a dash", func(p *corev1.Pod) { p.Name = long }, "a123456789-123456789-123456789-123456789-123456789-123456789-1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := input(nil)
			c.change(in.Pod)
			if got := Hostname(in.Pod, in.NodeName); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestSecurity(t *testing.T) {
	plain := specOf(t, nil)
	strict := specOf(t, context(&corev1.SecurityContext{AllowPrivilegeEscalation: ptr(false), ReadOnlyRootFilesystem: ptr(true)}))
	profile := func(t corev1.SeccompProfileType) *corev1.PodSecurityContext {
		return &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: t}}
	}
	confined := specOf(t, func(in *Input) { in.Pod.Spec.SecurityContext = profile(corev1.SeccompProfileTypeRuntimeDefault) })
	byDefault := specOf(t, func(in *Input) { in.SeccompDefault = true })
	unconfined := specOf(t, func(in *Input) {
		in.SeccompDefault = true
		in.Pod.Spec.SecurityContext = profile(corev1.SeccompProfileTypeUnconfined)
	})
	privileged := specOf(t, func(in *Input) {
		in.SeccompDefault = true
		in.Host.Devices = []specs.LinuxDevice{{Path: "/dev/fuse"}}
		in.Container.SecurityContext = &corev1.SecurityContext{Privileged: ptr(true)}
	})
	for _, c := range []struct {
		rule string
		ok   bool
	}{
		{"a container may gain privileges unless told otherwise", !plain.Process.NoNewPrivileges},
		{"allowPrivilegeEscalation false forbids it", strict.Process.NoNewPrivileges},
		{"the root is writable unless told otherwise", !plain.Root.Readonly && strict.Root.Readonly},
		{"no seccomp profile unless asked for", plain.Linux.Seccomp == nil},
		{"RuntimeDefault takes the default profile", confined.Linux.Seccomp != nil},
		{"with SeccompDefault it is taken without asking", byDefault.Linux.Seccomp != nil},
		{"Unconfined takes none", unconfined.Linux.Seccomp == nil},
		{"parts of /proc are masked", slices.Contains(plain.Linux.MaskedPaths, "/proc/kcore") && slices.Contains(plain.Linux.ReadonlyPaths, "/proc/sys")},
		{"no device but the usual ones", len(plain.Linux.Devices) == 0 && !plain.Linux.Resources.Devices[0].Allow},
		{"privileged has nothing masked", len(privileged.Linux.MaskedPaths)+len(privileged.Linux.ReadonlyPaths) == 0},
		{"privileged has no seccomp profile", privileged.Linux.Seccomp == nil},
		{"privileged has the host's devices", len(privileged.Linux.Devices) == 1 && privileged.Linux.Resources.Devices[0].Allow},
		{"crun 1.8 takes the version", plain.Version == "1.0.2"},
	} {
		if !c.ok {
			t.Errorf("not so: %s", c.rule)
		}
	}
}

func TestLimitsOfOpenFilesStayWithinTheHosts(t *testing.T) {
	for _, c := range []struct{ host, soft, hard uint64 }{{1 << 20, 1024, 524288}, {4096, 1024, 4096}, {512, 512, 512}} {
		got := specOf(t, func(in *Input) { in.Host.OpenFiles = c.host }).Process.Rlimits[0]
		if got.Soft != c.soft || got.Hard != c.hard {
			t.Errorf("host %d: got %+v", c.host, got)
		}
	}
}

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
		for destination, source := range map[string]string{"/etc/hosts": "/s/hosts", "/etc/hostname": "/s/hostname", "/etc/resolv.conf": "/s/resolv", "/dev/termination-log": "/s/message"} {
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
			in.Mounts = []specs.Mount{{Destination: "/data/deep/er"}, {Destination: "/data"}, {Destination: "/"}, {Destination: "/data/deep"}}
		})
		for i, m := range spec.Mounts {
			for _, later := range spec.Mounts[i+1:] {
				if depth(later.Destination) < depth(m.Destination) {
					t.Errorf("%s comes after %s", later.Destination, m.Destination)
				}
			}
		}
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

func TestWhatIsNotServedIsRefused(t *testing.T) {
	for name, change := range map[string]func(*Input){
		"a user namespace":   func(in *Input) { in.Pod.Spec.HostUsers = ptr(false) },
		"a local profile":    context(&corev1.SecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost}}),
		"a dangerous sysctl": func(in *Input) { in.Pod.Spec.SecurityContext = withSysctl("kernel.msgmax") },
		"a sysctl of the host's": func(in *Input) {
			in.Pod.Spec.SecurityContext = withSysctl("net.ipv4.tcp_syncookies")
			in.Pod.Spec.HostNetwork = true
		},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Spec(input(change)); err == nil {
				t.Error("no error")
			}
		})
	}
	t.Run("a terminal is known to the process, whose own word about it counts", func(t *testing.T) {
		tty := container(func(c *corev1.Container) { c.TTY = true })
		if p := specOf(t, tty).Process; !p.Terminal || !slices.Contains(p.Env, "TERM=xterm") {
			t.Errorf("terminal %t, environment %v", p.Terminal, p.Env)
		}
		dumb := container(func(c *corev1.Container) { c.TTY, c.Env = true, []corev1.EnvVar{{Name: "TERM", Value: "dumb"}} })
		if p := specOf(t, dumb).Process; !slices.Contains(p.Env, "TERM=dumb") || slices.Contains(p.Env, "TERM=xterm") {
			t.Errorf("environment %v", p.Env)
		}
	})
	t.Run("in a network of its own any user binds all ports and pings", func(t *testing.T) {
		const ports, ping = "net.ipv4.ip_unprivileged_port_start", "net.ipv4.ping_group_range"
		made := map[specs.LinuxNamespaceType]string{specs.NetworkNamespace: "/s/net"}
		for name, c := range map[string]struct {
			change func(*Input)
			want   map[string]string
		}{
			"that is made with the container":      {nil, map[string]string{ports: "0", ping: "0 2147483647"}},
			"unless the pod says how":              {func(in *Input) { in.Pod.Spec.SecurityContext = withSysctl("net/ipv4/ip_unprivileged_port_start") }, map[string]string{ports: "1", ping: "0 2147483647"}},
			"where that was set when it was made":  {func(in *Input) { in.Namespaces = made }, nil},
			"in the host's network it is not ours": {func(in *Input) { in.Pod.Spec.HostNetwork = true }, nil},
		} {
			if got := specOf(t, c.change).Linux.Sysctl; !maps.Equal(got, c.want) {
				t.Errorf("%s: got %v, want %v", name, got, c.want)
			}
		}
	})
	t.Run("a safe sysctl is set", func(t *testing.T) {
		spec := specOf(t, func(in *Input) { in.Pod.Spec.SecurityContext = withSysctl("net/ipv4/tcp_syncookies") })
		if spec.Linux.Sysctl["net.ipv4.tcp_syncookies"] != "1" {
			t.Errorf("got %v", spec.Linux.Sysctl)
		}
	})
}

func withSysctl(name string) *corev1.PodSecurityContext {
	return &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: name, Value: "1"}}}
}
