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

// standard returns the profile RuntimeDefault for a process with the capabilities of a spec; what it allows depends on the
// bounding set. With noLoops it allows no requests to loop devices.
func (p *Profiles) standard(spec *specs.Spec, noLoops bool) (*specs.LinuxSeccomp, error) {
	make := func() (profile *specs.LinuxSeccomp, err error) {
		if profile = seccomp.DefaultProfile(spec); noLoops {
			profile, err = withoutLoops(profile)
		}
		return profile, err
	}
	if p == nil {
		return make()
	}
	of := profileOf{strings.Join(spec.Process.Capabilities.Bounding, " "), noLoops}
	if made, ok := p.made.Get(of); ok {
		return made.(*specs.LinuxSeccomp), nil
	}
	profile, err := make()
	if err == nil {
		p.made.Add(of, profile)
	}
	return profile, err
}

// profileOf is what a profile RuntimeDefault depends on.
type profileOf struct {
	capabilities string
	noLoops      bool
}

// seccompProfile returns the container's profile, or else the pod's. A pod without either gets none unless
// SeccompDefault is on; a privileged container gets none at all. What profile it is does not let a container do with a
// volume's loop device what it could not do with another block device.
func seccompProfile(in Input, spec *specs.Spec) (*specs.LinuxSeccomp, error) {
	if privileged(in.Container) {
		return nil, nil
	}
	profile := security(in.Container).SeccompProfile
	if profile == nil {
		profile = podSecurity(in.Pod).SeccompProfile
	}
	if profile == nil {
		profile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
		if in.SeccompDefault {
			profile.Type = corev1.SeccompProfileTypeRuntimeDefault
		}
	}
	switch profile.Type {
	case corev1.SeccompProfileTypeRuntimeDefault:
		return in.Profiles.standard(spec, mayNotLoop(in, spec))
	case corev1.SeccompProfileTypeUnconfined:
		if hasDevices(&in.Pod.Spec) {
			return onlyWithoutLoops(spec), nil
		}
		return nil, nil
	case corev1.SeccompProfileTypeLocalhost:
		if profile.LocalhostProfile == nil || !filepath.IsLocal(*profile.LocalhostProfile) {
			return nil, fmt.Errorf("seccompProfile: localhostProfile has to be a path below %s: %w", in.SeccompDir,
				errdefs.ErrInvalidArgument)
		}
		own, err := readProfile(filepath.Join(in.SeccompDir, *profile.LocalhostProfile))
		if err != nil || !mayNotLoop(in, spec) {
			return own, err
		}
		without, err := withoutLoops(own)
		if err != nil && !hasDevices(&in.Pod.Spec) {
			return own, nil // such a pod has to be handed an open device by another one
		}
		return without, err
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
