package duty

import corev1 "k8s.io/api/core/v1"

// Check is a probe or hook of a running container.
type Check string

const (
	PostStart Check = "PostStart" // lifecycle.postStart: the container counts as started once it has succeeded
	Startup   Check = "Startup"   // startupProbe: the same
	Readiness Check = "Readiness" // readinessProbe
	Liveness  Check = "Liveness"  // livenessProbe
	PreStop   Check = "PreStop"   // lifecycle.preStop: a failure is only an event
)

// Probe returns the probe of a container that this check is about, nil if it has none.
func (k Check) Probe(c *corev1.Container) *corev1.Probe {
	switch k {
	case Startup:
		return c.StartupProbe
	case Readiness:
		return c.ReadinessProbe
	case Liveness:
		return c.LivenessProbe
	}
	return nil
}

// HasPostStart reports whether a container has a hook that is called when it has started.
func HasPostStart(c *corev1.Container) bool {
	return c.Lifecycle != nil && c.Lifecycle.PostStart != nil
}
