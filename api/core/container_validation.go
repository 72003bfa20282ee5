package core

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/podspec"
)

// podContext holds what the rules of a container need to know about its Pod.
type podContext struct {
	spec    *corev1.PodSpec
	volumes map[string]*corev1.Volume
	names   map[string]bool // of containers seen so far
}

func newPodContext(spec *corev1.PodSpec) *podContext {
	c := &podContext{spec: spec, volumes: map[string]*corev1.Volume{}, names: map[string]bool{}}
	for i := range spec.Volumes {
		c.volumes[spec.Volumes[i].Name] = &spec.Volumes[i]
	}
	return c
}

func (p *podContext) grace() int64 {
	if p.spec.TerminationGracePeriodSeconds == nil {
		return corev1.DefaultTerminationGracePeriodSeconds
	}
	return *p.spec.TerminationGracePeriodSeconds
}

func (p *podContext) containers(path *field.Path) field.ErrorList {
	list := p.spec.Containers
	if len(list) == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	for i := range list {
		errs = append(errs, p.container(&list[i], path.Index(i))...)
		errs = append(errs, p.longRunning(&list[i], path.Index(i))...)
		errs = append(errs, validateRestart(&list[i], path.Index(i))...)
	}
	taken := map[string]bool{}
	for i := range list {
		errs = append(errs, hostPortConflicts(&list[i], path.Index(i), taken)...)
	}
	return errs
}

func (p *podContext) initContainers(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range p.spec.InitContainers {
		c, path := &p.spec.InitContainers[i], path.Index(i)
		errs = append(errs, p.container(c, path)...)
		// They run one after another, so each has the ports to itself.
		errs = append(errs, hostPortConflicts(c, path, map[string]bool{})...)
		errs = append(errs, validateRestart(c, path)...)
		if podspec.IsSidecar(c) {
			errs = append(errs, p.longRunning(c, path)...)
			continue
		}
		for n, r := range c.ResizePolicy {
			if r.RestartPolicy == corev1.RestartContainer {
				errs = append(errs, field.Invalid(path.Child("resizePolicy").Index(n).Child("restartPolicy"), r.RestartPolicy,
					"must not be set to 'RestartContainer' for non-sidecar initContainers"))
			}
		}
		for _, f := range []struct {
			name string
			set  bool
		}{
			{"lifecycle", c.Lifecycle != nil},
			{"livenessProbe", c.LivenessProbe != nil},
			{"readinessProbe", c.ReadinessProbe != nil},
			{"startupProbe", c.StartupProbe != nil},
		} {
			if f.set {
				errs = append(errs, field.Forbidden(path.Child(f.name),
					"may not be set for init containers without restartPolicy=Always"))
			}
		}
	}
	return errs
}

// container checks what all kinds of containers have in common.
func (p *podContext) container(c *corev1.Container, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	} else {
		errs = append(errs, dnsLabel(path.Child("name"), c.Name)...)
	}
	errs = append(errs, validateImage(c.Image, path.Child("image"))...)
	errs = append(errs, requiredOneOf(path.Child("terminationMessagePolicy"), c.TerminationMessagePolicy,
		[]corev1.TerminationMessagePolicy{corev1.TerminationMessageFallbackToLogsOnError,
			corev1.TerminationMessageReadFile})...)
	errs = append(errs, p.ports(c.Ports, path.Child("ports"))...)
	errs = append(errs, validateEnv(c.Env, path.Child("env"))...)
	errs = append(errs, p.envFiles(c.Env, path.Child("env"))...)
	errs = append(errs, validateEnvFrom(c.EnvFrom, path.Child("envFrom"))...)
	errs = append(errs, p.volumeMounts(c, path.Child("volumeMounts"))...)
	errs = append(errs, p.volumeDevices(c, path.Child("volumeDevices"))...)
	errs = append(errs, requiredOneOf(path.Child("imagePullPolicy"), c.ImagePullPolicy,
		[]corev1.PullPolicy{corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever})...)
	errs = append(errs, validateResources(&c.Resources, path.Child("resources"))...)
	errs = append(errs, validateResizePolicy(c, p.spec.RestartPolicy, path.Child("resizePolicy"))...)
	errs = append(errs,
		validateSecurityContext(c.SecurityContext, path.Child("securityContext"), ptr.Deref(p.spec.HostUsers, true))...)
	if c.Name != "" {
		if p.names[c.Name] {
			errs = append(errs, field.Duplicate(path.Child("name"), c.Name))
		}
		p.names[c.Name] = true
	}
	return errs
}

func validateImage(image string, path *field.Path) field.ErrorList {
	switch {
	case image == "":
		return field.ErrorList{field.Required(path, "")}
	case strings.TrimSpace(image) != image:
		return field.ErrorList{field.Invalid(path, image, "must not have leading or trailing whitespace")}
	}
	return nil
}

// longRunning checks the fields that make sense only for a container that keeps running.
func (p *podContext) longRunning(c *corev1.Container, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.Lifecycle != nil {
		if h := c.Lifecycle.PostStart; h != nil {
			errs = append(errs,
				validateHandler(lifecycleHandler(h), p.grace(), path.Child("lifecycle", "postStart"))...)
		}
		if h := c.Lifecycle.PreStop; h != nil {
			errs = append(errs, validateHandler(lifecycleHandler(h), p.grace(), path.Child("lifecycle", "preStop"))...)
		}
	}
	errs = append(errs, p.probe(c.LivenessProbe, path.Child("livenessProbe"), successOnce)...)
	errs = append(errs, p.probe(c.ReadinessProbe, path.Child("readinessProbe"), noGraceOfItsOwn)...)
	return append(errs, p.probe(c.StartupProbe, path.Child("startupProbe"), successOnce)...)
}

func (p *podContext) ports(ports []corev1.ContainerPort, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := map[string]bool{}
	for i, port := range ports {
		path := path.Index(i)
		if port.Name != "" {
			bad := utilvalidation.IsValidPortName(port.Name)
			for _, msg := range bad {
				errs = append(errs, field.Invalid(path.Child("name"), port.Name, msg))
			}
			if len(bad) == 0 && names[port.Name] {
				errs = append(errs, field.Duplicate(path.Child("name"), port.Name))
			}
			names[port.Name] = true
		}
		if port.ContainerPort == 0 {
			errs = append(errs, field.Required(path.Child("containerPort"), ""))
		} else {
			errs = append(errs, portNumber(path.Child("containerPort"), port.ContainerPort)...)
		}
		if port.HostPort != 0 {
			errs = append(errs, portNumber(path.Child("hostPort"), port.HostPort)...)
			if p.spec.HostNetwork && port.HostPort != port.ContainerPort {
				errs = append(errs, field.Invalid(path.Child("containerPort"), port.ContainerPort, "must match `hostPort` when `hostNetwork` is true"))
			}
		}
		errs = append(errs, requiredOneOf(path.Child("protocol"), port.Protocol,
			[]corev1.Protocol{corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP})...)
	}
	return errs
}

func portNumber(path *field.Path, port int32) field.ErrorList {
	return invalid(path, port, utilvalidation.IsValidPortNum(int(port)))
}

// hostPortConflicts refuses the ports of the host that a container wants and that are taken, and takes the others.
func hostPortConflicts(c *corev1.Container, path *field.Path, taken map[string]bool) field.ErrorList {
	var errs field.ErrorList
	for i, port := range c.Ports {
		if port.HostPort == 0 {
			continue
		}
		key := fmt.Sprintf("%s/%s/%d", port.Protocol, port.HostIP, port.HostPort)
		if taken[key] {
			errs = append(errs, field.Duplicate(path.Child("ports").Index(i).Child("hostPort"), key))
		}
		taken[key] = true
	}
	return errs
}
