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
	t.Run("an entrypoint that is an empty string is none", func(t *testing.T) {
		spec := specOf(t, func(in *Input) {
			in.Image, in.Container.Command = imagespec.ImageConfig{Entrypoint: []string{""}, Cmd: []string{"cmd"}}, nil
		})
		if !slices.Equal(spec.Process.Args, []string{"cmd"}) {
			t.Errorf("got %q", spec.Process.Args)
		}
	})
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
		{"no overhead", `{restartPolicy: Never, containers: [{resources: {requests: {cpu: 1}, limits: {cpu: 1, memory: 64Mi}}}]}`, "none"},
		{"a container that may run again", `{containers: [{resources: {requests: {cpu: 1}, limits: {cpu: 1, memory: 64Mi}}}]}`,
			"shares 1024, quota 100000, memory 64Mi"},
		{"what an init container may leave", `{restartPolicy: Never, initContainers: [{resources: {limits: {memory: 64Mi}}}], containers: [{resources: {limits: {memory: 48Mi}}}]}`,
			"shares 2, quota 0, memory 64Mi"},
		{"one may take anything", `{containers: [{resources: {limits: {memory: 64Mi}}}, {}]}`, "shares 2, quota 0, memory 0"},
		{"on the sum of what containers may take", `{overhead: {cpu: 500m, memory: 16Mi}, containers: [
			{resources: {requests: {cpu: 500m}, limits: {cpu: 1, memory: 64Mi}}}, {resources: {requests: {cpu: 500m}, limits: {cpu: 1, memory: 48Mi}}}]}`,
			"shares 1536, quota 250000, memory 128Mi"},
		{"not where a container may take anything", `{overhead: {cpu: 500m, memory: 16Mi}, containers: [
			{resources: {requests: {cpu: 500m}, limits: {cpu: 1, memory: 64Mi}}}, {resources: {limits: {memory: 48Mi}}}]}`,
			"shares 1024, quota 0, memory 128Mi"},
		{"on what the whole pod may take", `{overhead: {cpu: 500m, memory: 16Mi}, resources: {requests: {cpu: 500m}, limits: {memory: 112Mi}}, containers: [{}]}`,
			"shares 1024, quota 0, memory 128Mi"},
		{"memory outlives a container that is not the only one", `{restartPolicy: OnFailure, containers: [{resources: {requests: {cpu: 500m}}}]}`,
			"shares 512, quota 0, memory 0"},
		{"but not a pod", `{restartPolicy: Never, volumes: [{emptyDir: {medium: Memory}}], containers: [{}]}`, "none"},
		{"nor files that another pod may have", `{restartPolicy: Never, volumes: [{persistentVolumeClaim: {claimName: c}}], containers: [{}]}`,
			"shares 2, quota 0, memory 0"},
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

// A container for debugging has no limits of its own, and takes no more than the others may.
func TestDebuggingTakesNoMoreThanThePod(t *testing.T) {
	pod := &corev1.Pod{}
	spec := `{restartPolicy: Never, containers: [{resources: {limits: {cpu: 1, memory: 64Mi}}}], ephemeralContainers: [{}, {}]}`
	if err := yaml.UnmarshalStrict([]byte(spec), &pod.Spec); err != nil {
		t.Fatal(err)
	}
	if r := PodResources(pod, 0, Host{}); *r.Memory.Limit != 64<<20 || *r.CPU.Quota != 100000 {
		t.Errorf("got %+v", r)
	}
	pod.Spec.Containers[0].Resources.Limits = nil
	if r := PodResources(pod, 0, Host{}); r.Memory != nil || r.CPU.Quota != nil {
		t.Errorf("of a pod that may take anything: %+v", r)
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
	once := func(in *Input) { in.Pod.Spec.RestartPolicy = corev1.RestartPolicyNever }
	if r := PodResources(input(once).Pod, 0, in.Host); r != nil {
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

func TestNamespaces(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Input)
		want   []specs.LinuxNamespaceType
	}{
		{"all of its own", nil, []specs.LinuxNamespaceType{"mount", "pid", "ipc", "network", "uts"}},
		{
			"with cgroup v2 one for cgroups", func(in *Input) { in.Host.CgroupV2 = true },
			[]specs.LinuxNamespaceType{"mount", "pid", "ipc", "network", "uts", "cgroup"},
		},
		{"the host's network brings its name", func(in *Input) { in.Pod.Spec.HostNetwork = true }, []specs.LinuxNamespaceType{"mount", "pid", "ipc"}},
		{
			"the host's processes and IPC", func(in *Input) { in.Pod.Spec.HostPID, in.Pod.Spec.HostIPC = true, true },
			[]specs.LinuxNamespaceType{"mount", "network", "uts"},
		},
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

func TestLimitsOfOpenFilesStayWithinTheHosts(t *testing.T) {
	for _, c := range []struct{ host, soft, hard uint64 }{{1 << 20, 1024, 524288}, {4096, 1024, 4096}, {512, 512, 512}} {
		got := specOf(t, func(in *Input) { in.Host.OpenFiles = c.host }).Process.Rlimits[0]
		if got.Soft != c.soft || got.Hard != c.hard {
			t.Errorf("host %d: got %+v", c.host, got)
		}
	}
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
			"that is made with the container": {nil, map[string]string{ports: "0", ping: "0 2147483647"}},
			"unless the pod says how": {
				func(in *Input) { in.Pod.Spec.SecurityContext = withSysctl("net/ipv4/ip_unprivileged_port_start") },
				map[string]string{ports: "1", ping: "0 2147483647"},
			},
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
