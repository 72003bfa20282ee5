package oci

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/lru"
)

// mostProfiles is how many profiles are remembered. Hardly any host has containers with so many sets of capabilities.
const mostProfiles = 64

// Profiles remembers the profiles RuntimeDefault that it has made, one for each set of capabilities. Those that Spec
// returns must not be changed. A nil pointer remembers none.
type Profiles struct{ made *lru.Cache }

// NewProfiles returns Profiles that remember none yet.
func NewProfiles() *Profiles { return &Profiles{lru.New(mostProfiles)} }

// standard returns the profile RuntimeDefault for a process with the capabilities of a spec, of which it depends on the
// bounding set.
func (p *Profiles) standard(spec *specs.Spec) *specs.LinuxSeccomp {
	if p == nil {
		return seccomp.DefaultProfile(spec)
	}
	of := strings.Join(spec.Process.Capabilities.Bounding, " ")
	if made, ok := p.made.Get(of); ok {
		return made.(*specs.LinuxSeccomp)
	}
	profile := seccomp.DefaultProfile(spec)
	p.made.Add(of, profile)
	return profile
}

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
			return in.Profiles.standard(spec), nil
		}
		return nil, nil
	}
	switch profile.Type {
	case corev1.SeccompProfileTypeRuntimeDefault:
		return in.Profiles.standard(spec), nil
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
