package oci

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"
)

// seccompProfile returns the container's profile, or else the pod's. A pod without either gets none unless
// SeccompDefault is on; a privileged container gets none at all.
func seccompProfile(in Input, spec *specs.Spec) (*specs.LinuxSeccomp, error) {
	if privileged(in.Container) {
		return nil, nil
	}
	profile := security(in.Container).SeccompProfile
	if profile == nil {
		profile = podSecurity(in.Pod).SeccompProfile
	}
	if profile == nil {
		if in.SeccompDefault {
			return seccomp.DefaultProfile(spec), nil
		}
		return nil, nil
	}
	switch profile.Type {
	case corev1.SeccompProfileTypeRuntimeDefault:
		return seccomp.DefaultProfile(spec), nil
	case corev1.SeccompProfileTypeUnconfined:
		return nil, nil
	case corev1.SeccompProfileTypeLocalhost:
		if profile.LocalhostProfile == nil || !filepath.IsLocal(*profile.LocalhostProfile) {
			return nil, fmt.Errorf("seccompProfile: localhostProfile has to be a path below %s: %w", in.SeccompDir,
				errdefs.ErrInvalidArgument)
		}
		return readProfile(filepath.Join(in.SeccompDir, *profile.LocalhostProfile))
	}
	return nil, fmt.Errorf("seccompProfile of type %s is not known: %w", profile.Type, errdefs.ErrInvalidArgument)
}

// readProfile reads a profile in the form of the OCI runtime specification, as containerd does.
func readProfile(path string) (*specs.LinuxSeccomp, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot load seccomp profile: %w", err)
	}
	out := &specs.LinuxSeccomp{}
	if err := json.Unmarshal(content, out); err != nil {
		return nil, fmt.Errorf("cannot load seccomp profile %s: %w", path, err)
	}
	return out, nil
}
