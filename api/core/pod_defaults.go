package core

import (
	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/podspec"
)

const defaultFileMode = int32(0o644)

// SetPodDefaults fills in what a Pod's manifest left out. Calling it again changes nothing.
func SetPodDefaults(pod *corev1.Pod) {
	spec := &pod.Spec
	setPodSpecDefaults(spec)
	if g := spec.TerminationGracePeriodSeconds; *g < 0 {
		spec.TerminationGracePeriodSeconds = ptr.To(int64(1)) // not in a template, for which a warning is sent
	}
	if spec.EnableServiceLinks == nil {
		spec.EnableServiceLinks = ptr.To(true)
	}
	// Ephemeral containers have neither resources nor ports.
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			c := &list[i]
			defaultRequests(&c.Resources)
			if spec.HostNetwork {
				defaultHostPorts(c.Ports)
			}
		}
	}
	if spec.Resources != nil {
		defaultPodResources(pod)
	}
}

// defaultPodResources sets the requests of a Pod to those of its containers, or to its limits where they have none. It
// also sets the Pod's limit of huge pages, which cannot be overcommitted, from its containers.
func defaultPodResources(pod *corev1.Pod) {
	r, options := pod.Spec.Resources, resourcehelper.PodResourcesOptions{}
	for name, limit := range resourcehelper.AggregateContainerLimits(pod, options) {
		if isHugePages(name) {
			setAmount(&r.Limits, name, limit)
		}
	}
	for name, request := range resourcehelper.AggregateContainerRequests(pod, options) {
		if resourcehelper.IsSupportedPodLevelResource(name) && !isHugePages(name) {
			setAmount(&r.Requests, name, request)
		}
	}
	defaultRequests(r)
}

// setAmount sets an amount that is not set yet.
func setAmount(list *corev1.ResourceList, name corev1.ResourceName, amount resource.Quantity) {
	if _, ok := (*list)[name]; ok {
		return
	}
	if *list == nil {
		*list = corev1.ResourceList{}
	}
	(*list)[name] = amount.DeepCopy()
}

// SetPodTemplateDefaults fills in what a template left out: less than for a Pod, which gets the rest when it is made.
func SetPodTemplateDefaults(template *corev1.PodTemplateSpec) {
	setPodSpecDefaults(&template.Spec)
}

// setPodSpecDefaults fills in what Pods and templates have in common.
func setPodSpecDefaults(spec *corev1.PodSpec) {
	setDefault(&spec.DNSPolicy, corev1.DNSClusterFirst)
	setDefault(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	setDefault(&spec.SchedulerName, corev1.DefaultSchedulerName)
	if spec.SecurityContext == nil {
		spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	if spec.TerminationGracePeriodSeconds == nil {
		spec.TerminationGracePeriodSeconds = ptr.To(int64(corev1.DefaultTerminationGracePeriodSeconds))
	}
	// Both names of the field always have the same value; the old one counts only when the new one is not set.
	setDefault(&spec.ServiceAccountName, spec.DeprecatedServiceAccount)
	spec.DeprecatedServiceAccount = spec.ServiceAccountName

	for i := range spec.Volumes {
		defaultVolume(&spec.Volumes[i].VolumeSource)
	}
	for c := range podspec.Containers(spec) {
		defaultContainer(c)
	}
	roundResources(spec.Overhead)
	if spec.Resources != nil {
		roundResources(spec.Resources.Limits)
		roundResources(spec.Resources.Requests)
	}
}

func defaultContainer(c *corev1.Container) {
	setDefault(&c.ImagePullPolicy, pullPolicyFor(c.Image))
	setDefault(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	setDefault(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	for i := range c.Ports {
		setDefault(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		from := c.Env[i].ValueFrom
		if from != nil && from.FieldRef != nil {
			setDefault(&from.FieldRef.APIVersion, "v1")
		}
		if from != nil && from.FileKeyRef != nil && from.FileKeyRef.Optional == nil {
			from.FileKeyRef.Optional = ptr.To(false)
		}
	}
	roundResources(c.Resources.Limits)
	roundResources(c.Resources.Requests)
	for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		defaultProbe(p)
	}
	if c.Lifecycle != nil {
		for _, h := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if h != nil {
				defaultHTTPGet(h.HTTPGet)
			}
		}
	}
}

// pullPolicyFor returns Always for the tag latest, written or implied, else IfNotPresent.
func pullPolicyFor(image string) corev1.PullPolicy {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return corev1.PullIfNotPresent // validation reports what is wrong with it
	}
	if tagged, ok := reference.TagNameOnly(named).(reference.Tagged); ok && tagged.Tag() == "latest" {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

func defaultProbe(p *corev1.Probe) {
	if p == nil {
		return
	}
	setDefault(&p.TimeoutSeconds, 1)
	setDefault(&p.PeriodSeconds, 10)
	setDefault(&p.SuccessThreshold, 1)
	setDefault(&p.FailureThreshold, 3)
	defaultHTTPGet(p.HTTPGet)
	if p.GRPC != nil && p.GRPC.Service == nil {
		p.GRPC.Service = ptr.To("")
	}
}

func defaultHTTPGet(h *corev1.HTTPGetAction) {
	if h == nil {
		return
	}
	setDefault(&h.Path, "/")
	setDefault(&h.Scheme, corev1.URISchemeHTTP)
}

func defaultVolume(v *corev1.VolumeSource) {
	if *v == (corev1.VolumeSource{}) {
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	if v.HostPath != nil && v.HostPath.Type == nil {
		v.HostPath.Type = ptr.To(corev1.HostPathUnset)
	}
	if v.Secret != nil {
		defaultMode(&v.Secret.DefaultMode)
	}
	if v.ConfigMap != nil {
		defaultMode(&v.ConfigMap.DefaultMode)
	}
	if v.DownwardAPI != nil {
		defaultMode(&v.DownwardAPI.DefaultMode)
		defaultDownwardItems(v.DownwardAPI.Items)
	}
	if v.Projected != nil {
		defaultProjected(v.Projected)
	}
	if v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
		setClaimSpecDefaults(&v.Ephemeral.VolumeClaimTemplate.Spec)
	}
	if v.Image != nil {
		setDefault(&v.Image.PullPolicy, pullPolicyFor(v.Image.Reference))
	}
}

func defaultProjected(p *corev1.ProjectedVolumeSource) {
	defaultMode(&p.DefaultMode)
	for i := range p.Sources {
		s := &p.Sources[i]
		if s.ServiceAccountToken != nil && s.ServiceAccountToken.ExpirationSeconds == nil {
			s.ServiceAccountToken.ExpirationSeconds = ptr.To(int64(3600))
		}
		if s.DownwardAPI != nil {
			defaultDownwardItems(s.DownwardAPI.Items)
		}
	}
}

func defaultMode(mode **int32) {
	if *mode == nil {
		*mode = ptr.To(defaultFileMode)
	}
}

func defaultDownwardItems(items []corev1.DownwardAPIVolumeFile) {
	for i := range items {
		if items[i].FieldRef != nil {
			setDefault(&items[i].FieldRef.APIVersion, "v1")
		}
	}
}

// defaultRequests sets a missing request to the limit.
func defaultRequests(r *corev1.ResourceRequirements) {
	for name, limit := range r.Limits {
		setAmount(&r.Requests, name, limit)
	}
}

func defaultHostPorts(ports []corev1.ContainerPort) {
	for i := range ports {
		setDefault(&ports[i].HostPort, ports[i].ContainerPort)
	}
}

// roundResources rounds up to a thousandth, the finest amount that the API keeps.
func roundResources(list corev1.ResourceList) {
	for name, q := range list {
		q.RoundUp(resource.Milli)
		list[name] = q
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
