package oci

import (
	"fmt"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"
)

// AppArmorProfile returns the profile that a container asks for: its own field, or else the pod's
// (SecurityContext.AppArmorProfile); nil if neither is set.
func AppArmorProfile(pod *corev1.Pod, c *corev1.Container) *corev1.AppArmorProfile {
	if own := security(c).AppArmorProfile; own != nil {
		return own
	}
	return podSecurity(pod).AppArmorProfile
}

// appArmorProfile returns the name of the profile that confines a container, empty if there is none. A container that
// asks for none gets the default profile if the host has it. A privileged container gets only a profile that it asks
// for.
func appArmorProfile(in Input) (string, error) {
	asked := AppArmorProfile(in.Pod, in.Container)
	kind := corev1.AppArmorProfileTypeRuntimeDefault
	if asked != nil {
		kind = asked.Type
	}
	switch kind {
	case corev1.AppArmorProfileTypeUnconfined:
		return "", nil
	case corev1.AppArmorProfileTypeLocalhost:
		if asked.LocalhostProfile == nil {
			return "", fmt.Errorf("appArmorProfile: localhostProfile is missing: %w", errdefs.ErrInvalidArgument)
		}
		return *asked.LocalhostProfile, nil
	case corev1.AppArmorProfileTypeRuntimeDefault:
		switch {
		case privileged(in.Container) || asked == nil && in.AppArmorDefault == nil:
			return "", nil
		case in.AppArmorDefault == nil:
			return "", fmt.Errorf("appArmorProfile: there is no default profile on this host: %w",
				errdefs.ErrFailedPrecondition)
		}
		return in.AppArmorDefault()
	}
	return "", fmt.Errorf("appArmorProfile of type %s is not known: %w", kind, errdefs.ErrInvalidArgument)
}
