package oci

import (
	"slices"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// decide returns what a profile says to an ioctl: the action of its first rule that applies.
func decide(p *specs.LinuxSeccomp, descriptor, request uint64) specs.LinuxSeccompAction {
	arguments := []uint64{descriptor, request}
	for _, rule := range p.Syscalls {
		if slices.Contains(rule.Names, "ioctl") && !slices.ContainsFunc(rule.Args, func(a specs.LinuxSeccompArg) bool {
			switch is := arguments[a.Index]; a.Op {
			case specs.OpEqualTo:
				return is != a.Value
			case specs.OpNotEqual:
				return is == a.Value
			case specs.OpMaskedEqual:
				return is&a.Value != a.ValueTwo&a.Value
			}
			panic(a.Op)
		}) {
			return rule.Action
		}
	}
	return p.DefaultAction
}

// Whatever a profile says to other requests stays, and it refuses those to loop devices, whatever is in the half of the
// argument that the kernel does not look at.
func TestWithoutLoops(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		request := rapid.OneOf(rapid.Uint64(), rapid.Map(rapid.Uint64Range(0, 1<<7), func(n uint64) uint64 { return loopRequest - 1<<6 + n }),
			rapid.Map(rapid.Uint64Range(0, 1<<40), func(n uint64) uint64 { return n<<24 | loopRequest | n&0xFF }))
		mask := rapid.OneOf(rapid.Uint64(), rapid.SampledFrom([]uint64{0, 0xFF00, loopMask, 0xFFFFFFFF, ^uint64(0)}))
		condition := rapid.Custom(func(t *rapid.T) specs.LinuxSeccompArg {
			switch rapid.IntRange(0, 2).Draw(t, "condition") {
			case 0:
				return specs.LinuxSeccompArg{Index: 1, Op: specs.OpEqualTo, Value: request.Draw(t, "request")}
			case 1:
				return specs.LinuxSeccompArg{Index: 1, Op: specs.OpNotEqual, Value: loopRequest | rapid.Uint64Range(0, 10).Draw(t, "loop")}
			}
			return requestIs(mask.Draw(t, "mask"), request.Draw(t, "value"))
		})
		rule := rapid.Custom(func(t *rapid.T) specs.LinuxSyscall {
			s := specs.LinuxSyscall{
				Names:  rapid.SampledFrom([][]string{{"ioctl"}, {"read", "ioctl", "write"}, {"read"}}).Draw(t, "names"),
				Action: rapid.SampledFrom([]specs.LinuxSeccompAction{specs.ActAllow, specs.ActLog, specs.ActErrno, specs.ActNotify}).Draw(t, "action"),
				Args:   rapid.SliceOfN(condition, 0, 1).Draw(t, "request"),
			}
			if rapid.Bool().Draw(t, "of a descriptor") {
				s.Args = append(s.Args, specs.LinuxSeccompArg{Index: 0, Op: specs.OpEqualTo, Value: 3})
			}
			return s
		})
		profile := &specs.LinuxSeccomp{
			DefaultAction: rapid.SampledFrom([]specs.LinuxSeccompAction{specs.ActAllow, specs.ActErrno}).Draw(t, "default"),
			Syscalls:      rapid.SliceOfN(rule, 0, 3).Draw(t, "rules"),
		}
		without, err := withoutLoops(profile)
		if err != nil {
			t.Fatal(err)
		}
		descriptor, asked := rapid.Uint64Range(3, 4).Draw(t, "descriptor"), request.Draw(t, "asked")
		was, is := decide(profile, descriptor, asked), decide(without, descriptor, asked)
		if asked&loopMask == loopRequest {
			if !refuses(is) {
				t.Fatalf("%x: %s", asked, is)
			}
		} else if is != was {
			t.Fatalf("%x: %s, before %s", asked, is, was)
		}
	})
	for _, op := range []specs.LinuxSeccompOperator{specs.OpNotEqual, specs.OpLessThan, specs.OpGreaterEqual} {
		_, err := withoutLoops(&specs.LinuxSeccomp{Syscalls: []specs.LinuxSyscall{{
			Names: []string{"ioctl"}, Action: specs.ActAllow, Args: []specs.LinuxSeccompArg{{Index: 1, Op: op, Value: 0x5412}},
		}}})
		if !errdefs.IsInvalidArgument(err) {
			t.Errorf("%s: %v", op, err)
		}
	}
}

// Which containers are kept from requests to loop devices.
func TestWhoMayMakeRequestsToLoopDevices(t *testing.T) {
	const clear = loopRequest + 1
	privileged, administrator := &corev1.SecurityContext{Privileged: new(true)}, &corev1.SecurityContext{
		Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_ADMIN"}},
	}
	unconfined := &corev1.SecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}}
	for name, tc := range map[string]struct {
		security *corev1.SecurityContext
		device   string // who has one
		may      bool
	}{
		"a container":                             {},
		"with a device":                           {device: "self"},
		"Unconfined":                              {security: unconfined, may: true},
		"Unconfined, with a device":               {security: unconfined, device: "self"},
		"Unconfined, beside one with a device":    {security: unconfined, device: "other"},
		"Unconfined, debugged by a device":        {security: unconfined, device: "added"},
		"with SYS_ADMIN":                          {security: administrator, may: true},
		"with SYS_ADMIN, beside one with devices": {security: administrator, device: "other"},
		"privileged":                              {security: privileged, device: "self", may: true},
	} {
		t.Run(name, func(t *testing.T) {
			devices := []corev1.VolumeDevice{{Name: "v", DevicePath: "/dev/v"}}
			pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "self", SecurityContext: tc.security}, {Name: "other"}}}}
			switch tc.device {
			case "self":
				pod.Spec.Containers[0].VolumeDevices = devices
			case "other":
				pod.Spec.Containers[1].VolumeDevices = devices
			case "added":
				pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{
					{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", VolumeDevices: devices}},
				}
			}
			in := Input{Pod: pod, Container: &pod.Spec.Containers[0], SeccompDefault: true, Host: Host{Capabilities: []string{"CAP_SYS_ADMIN"}}}
			spec := &specs.Spec{Process: &specs.Process{Capabilities: capabilities(in)}}
			profile, err := seccompProfile(in, spec)
			if err != nil {
				t.Fatal(err)
			}
			if may := profile == nil || !refuses(decide(profile, 3, clear)); may != tc.may {
				t.Errorf("it may: %v", may)
			}
			if profile != nil && refuses(decide(profile, 3, 0x5401)) {
				t.Error("it may not ask a terminal")
			}
		})
	}
}
