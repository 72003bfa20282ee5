package oci

import (
	"fmt"
	"slices"

	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/podspec"
)

// The requests of ioctl to loop devices are 0x4C00 to 0x4CFF (linux/loop.h): with them a container that has one as a volume
// could let go of its file, give it another one, or have the kernel look for partitions. The kernel looks at the lower
// half of the argument only.
const (
	loopRequest  = 0x4C00
	loopMask     = 0xFFFFFF00
	requestIndex = 1 // of ioctl's arguments
)

// mayNotLoop reports whether a container is to make no requests to loop devices: any but those that could have loop devices
// of their own, and even of these those whose pod has block devices as volumes. One of the others may be handed an open
// device by a container that has one.
func mayNotLoop(in Input, spec *specs.Spec) bool {
	return hasDevices(&in.Pod.Spec) || !slices.Contains(spec.Process.Capabilities.Bounding, "CAP_SYS_ADMIN")
}

// hasDevices reports whether any container of a pod has a block device as a volume.
func hasDevices(pod *corev1.PodSpec) bool {
	for c := range podspec.Workload(pod) {
		if len(c.VolumeDevices) > 0 {
			return true
		}
	}
	return slices.ContainsFunc(pod.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return len(c.VolumeDevices) > 0 })
}

// onlyWithoutLoops is the profile of a container that asks for none, and may make no requests to loop devices.
func onlyWithoutLoops(spec *specs.Spec) *specs.LinuxSeccomp {
	return &specs.LinuxSeccomp{
		DefaultAction: specs.ActAllow,
		Architectures: seccomp.DefaultProfile(spec).Architectures,
		Syscalls:      []specs.LinuxSyscall{noLoops()},
	}
}

// noLoops refuses requests to loop devices as if they were made to other block devices.
func noLoops() specs.LinuxSyscall {
	notTTY := uint(unix.ENOTTY)
	return specs.LinuxSyscall{
		Names: []string{"ioctl"}, Action: specs.ActErrno, ErrnoRet: &notTTY, Args: []specs.LinuxSeccompArg{requestIs(loopMask, loopRequest)},
	}
}

// requestIs is the condition that those bits of the request that are in a mask have a value.
func requestIs(mask, value uint64) specs.LinuxSeccompArg {
	return specs.LinuxSeccompArg{Index: requestIndex, Value: mask, ValueTwo: value, Op: specs.OpMaskedEqual}
}

// withoutLoops returns a profile that decides like the given one, which it does not change, but refuses requests to loop
// devices.
//
// A rule that lets calls through cannot name what it leaves out, and a second rule that refuses those would not prevail over
// it. So a rule for each bit by which other requests differ from those to loop devices takes its place.
func withoutLoops(profile *specs.LinuxSeccomp) (*specs.LinuxSeccomp, error) {
	out := *profile
	out.Syscalls = nil
	for _, rule := range profile.Syscalls {
		at := slices.Index(rule.Names, "ioctl")
		if at < 0 || refuses(rule.Action) {
			out.Syscalls = append(out.Syscalls, rule)
			continue
		}
		if len(rule.Names) > 1 {
			others := rule
			others.Names = slices.Delete(slices.Clone(rule.Names), at, at+1)
			out.Syscalls = append(out.Syscalls, others)
		}
		conditions, others, err := requestsBut(rule.Args)
		if err != nil {
			return nil, err
		}
		for _, c := range conditions {
			part := rule
			part.Names, part.Args = []string{"ioctl"}, append(slices.Clone(others), c)
			out.Syscalls = append(out.Syscalls, part)
		}
	}
	out.Syscalls = append(out.Syscalls, noLoops())
	return &out, nil
}

// refuses reports whether an action never lets a call through.
func refuses(a specs.LinuxSeccompAction) bool {
	switch a {
	case specs.ActErrno, specs.ActKill, specs.ActKillProcess, specs.ActKillThread, specs.ActTrap:
		return true
	}
	return false
}

// requestsBut returns conditions for the request argument of ioctl. One of them holds where all conditions of a rule hold
// and the request is not one for loop devices. others are the rule's conditions for other arguments, which have to hold
// too.
func requestsBut(args []specs.LinuxSeccompArg) (conditions, others []specs.LinuxSeccompArg, err error) {
	mask, value, of := uint64(0), uint64(0), 0
	for _, a := range args {
		if a.Index != requestIndex {
			others = append(others, a)
			continue
		}
		of++
		switch {
		case a.Op == specs.OpEqualTo:
			mask, value = ^uint64(0), a.Value
		case a.Op == specs.OpMaskedEqual:
			mask, value = a.Value, a.ValueTwo
		case a.Op == specs.OpNotEqual && a.Value&loopMask == loopRequest: // which the others imply
		default:
			of = 2
		}
	}
	if of > 1 {
		return nil, nil, fmt.Errorf("seccompProfile: localhostProfile: a pod with volumeDevices may make no ioctl requests to loop devices, and "+
			"a rule that allows ioctl compares the request in another way than SCMP_CMP_EQ or SCMP_CMP_MASKED_EQ, once: %w", errdefs.ErrInvalidArgument)
	}
	if (value^loopRequest)&mask&loopMask != 0 { // it is about others only
		return []specs.LinuxSeccompArg{requestIs(mask, value)}, others, nil
	}
	for bit := uint64(1) << 31; bit&loopMask != 0; bit >>= 1 {
		if mask&bit == 0 {
			conditions = append(conditions, requestIs(mask|bit, value&mask|^uint64(loopRequest)&bit))
		}
	}
	return conditions, others, nil
}
