package causes

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/runtime"
)

// starting reports whether a pod is on the node and some container of it has never run.
func (v *podView) starting() bool {
	return !v.ended() && v.pod.Spec.NodeName != "" && v.pod.DeletionTimestamp == nil
}

// launching returns what is known about the next launch of a container; false if none has failed.
func (v *podView) launching(container string) (pod.Launching, bool) {
	for _, l := range v.Launchings[v.pod.UID] {
		if container == "" || l.Container == container {
			return l, true
		}
	}
	return pod.Launching{}, false
}

// again completes a cause with when the launch of a container is tried again.
func (v *podView) again(c *why.Cause, container string) {
	l, ok := v.launching(container)
	if !ok {
		return
	}
	c.Details["failures"] = fmt.Sprint(l.Failed)
	if l.Next.IsZero() {
		c.Message += fmt.Sprintf(" It has failed %s, and is being tried again now.", times(l.Failed))
		return
	}
	c.Message += fmt.Sprintf(" It has failed %s, and is tried again.", times(l.Failed))
	c.Until = why.At(l.Next)
}

func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times in a row", n)
}

// need is a ConfigMap, Secret or PersistentVolumeClaim that a pod names.
type need struct{ kind, name, forWhat string }

// needs returns the ConfigMaps, Secrets and claims without which a pod cannot start.
func needs(spec *corev1.PodSpec) (all []need) {
	add := func(kind, name string, optional *bool, forWhat string) {
		n := need{kind, name, forWhat}
		if name != "" && !ptr.Deref(optional, false) && !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	for i := range spec.Volumes {
		volume := &spec.Volumes[i]
		forWhat := "volume " + volume.Name
		if s := volume.ConfigMap; s != nil {
			add("ConfigMap", s.Name, s.Optional, forWhat)
		}
		if s := volume.Secret; s != nil {
			add("Secret", s.SecretName, s.Optional, forWhat)
		}
		if s := volume.PersistentVolumeClaim; s != nil {
			add("PersistentVolumeClaim", s.ClaimName, nil, forWhat)
		}
		if volume.Projected == nil {
			continue
		}
		for _, source := range volume.Projected.Sources {
			if s := source.ConfigMap; s != nil {
				add("ConfigMap", s.Name, s.Optional, forWhat)
			}
			if s := source.Secret; s != nil {
				add("Secret", s.Name, s.Optional, forWhat)
			}
		}
	}
	for c := range podspec.Containers(spec) {
		forWhat := "the environment of container " + c.Name
		for _, e := range c.EnvFrom {
			if s := e.ConfigMapRef; s != nil {
				add("ConfigMap", s.Name, s.Optional, forWhat)
			}
			if s := e.SecretRef; s != nil {
				add("Secret", s.Name, s.Optional, forWhat)
			}
		}
		for _, e := range c.Env {
			if e.ValueFrom == nil {
				continue
			}
			if s := e.ValueFrom.ConfigMapKeyRef; s != nil {
				add("ConfigMap", s.Name, s.Optional, forWhat)
			}
			if s := e.ValueFrom.SecretKeyRef; s != nil {
				add("Secret", s.Name, s.Optional, forWhat)
			}
		}
	}
	return all
}

// podReferences are ConfigMaps, Secrets and claims that do not exist.
func podReferences(v *podView) (all []why.Cause) {
	if v.ended() || v.Missing == nil {
		return nil
	}
	for _, n := range needs(&v.pod.Spec) {
		if missing, known := v.Missing(n.kind, v.pod.Namespace, n.name); !missing || !known {
			continue
		}
		c := why.Cause{
			Type: n.kind + "Missing", Brief: n.kind + " " + n.name + " does not exist",
			Object:  &why.Reference{Kind: n.kind, Namespace: v.pod.Namespace, Name: n.name},
			Message: fmt.Sprintf("does not exist, and %s needs it. The pod starts by itself soon after it was created.", n.forWhat),
			Details: map[string]string{"neededBy": n.forWhat},
		}
		if create := map[string]string{"ConfigMap": "configmap", "Secret": "secret generic"}[n.kind]; create != "" {
			c.Help = []string{fmt.Sprintf("jobctl create %s %s%s --from-literal=KEY=VALUE", create, why.Word(n.name), why.InNamespace(v.pod.Namespace))}
		}
		v.again(&c, "")
		all = append(all, c)
	}
	return all
}

// mounting finds the volume and what is wrong with it in a kubelet's words.
var mounting = regexp.MustCompile(`^MountVolume\.\w+ failed for volume "([^"]+)" ?: (.+)`)

// podSetUp is a step of a pod's set-up that fails: a volume, the network, a device.
func podSetUp(v *podView) []why.Cause {
	if !v.starting() || v.pod.Status.Phase != corev1.PodPending || len(podReferences(v)) > 0 {
		return nil
	}
	for _, s := range v.statuses() { // a container has come further than the set-up
		if w := s.State.Waiting; w == nil || w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
			return nil
		}
	}
	e := v.LastEvent(v.pod.UID, "FailedMount", "FailedCreatePodSandBox", "FailedCreatePodContainer", "FailedAttachVolume", "StuckStep")
	if e == nil {
		if len(v.statuses()) == 0 {
			return nil
		}
		return []why.Cause{{Type: "Starting", Message: "Its containers are being created.", Brief: "its containers are being created", Since: since(v.pod)}}
	}
	c := why.Cause{Type: "SetUpFails", Since: why.At(core.LastSeen(e)), Brief: why.Clause(e.Message), Details: map[string]string{"reason": e.Reason}}
	switch e.Reason {
	case "FailedMount", "FailedAttachVolume":
		c.Type = "VolumeFails"
		if found := mounting.FindStringSubmatch(e.Message); found != nil {
			c.Brief = why.Clause("volume " + found[1] + ": " + found[2])
		}
		c.Message = "A volume cannot be mounted: " + why.Sentence(e.Message)
	case "StuckStep":
		c.Type = "Stuck"
		c.Message = "A step of its set-up does not come to an end: " + why.Sentence(e.Message)
	default:
		c.Message = "It cannot be set up: " + why.Sentence(e.Message)
	}
	v.again(&c, "")
	return []why.Cause{c}
}

// podImage is an image that cannot be had.
func podImage(v *podView) (all []why.Cause) {
	if v.ended() {
		return nil
	}
	for _, s := range v.statuses() {
		w := s.State.Waiting
		if w == nil {
			continue
		}
		image := v.image(s.Name)
		c := why.Cause{Details: map[string]string{"container": s.Name, "image": image}}
		switch w.Reason {
		case "ErrImagePull", "ImagePullBackOff":
			c.Type, c.Brief = "ImagePull", "cannot pull "+image
			_, message, found := strings.Cut(w.Message, "ErrImagePull: ")
			if !found {
				message = w.Message
			}
			c.Message = fmt.Sprintf("The image %s of container %s cannot be pulled: %s", image, s.Name, why.Sentence(message))
			if e := v.LastEvent(v.pod.UID, "FailedToRetrieveImagePullSecret"); e != nil {
				c.Message += " " + why.Sentence(e.Message)
			}
			c.Help = []string{"jobctl image pull " + image, "jobctl image import docker://" + image}
			switch {
			case strings.Contains(message, runtime.ImagePresent):
				c.Help = nil // the message says what helps
			case v.pullPolicy(s.Name) == corev1.PullAlways:
				c.Message += " Once it has been imported, imagePullPolicy IfNotPresent (--pull missing) uses it without asking a registry;" +
					" Always, the default for :latest, does not."
			}
		case "ErrImageNeverPull":
			c.Type, c.Brief = "ImageNeverPull", "image "+image+" is not here, and imagePullPolicy is Never"
			c.Message = fmt.Sprintf("The image %s of container %s is not on this machine, and its imagePullPolicy is Never.", image, s.Name)
			c.Help = []string{"jobctl image list", "jobctl image import docker://" + image}
		case "InvalidImageName":
			c.Type, c.Brief = "InvalidImageName", fmt.Sprintf("%q is not the name of an image", image)
			c.Message = fmt.Sprintf("%q, of container %s, is not the name of an image: %s", image, s.Name, why.Sentence(w.Message))
		default:
			continue
		}
		v.again(&c, s.Name)
		all = append(all, c)
	}
	return all
}

// image returns the image that the spec names for a container.
func (v *podView) image(container string) string {
	if c := podspec.Find(&v.pod.Spec, container); c != nil {
		return c.Image
	}
	return ""
}

// pullPolicy returns the imagePullPolicy of a container.
func (v *podView) pullPolicy(container string) corev1.PullPolicy {
	if c := podspec.Find(&v.pod.Spec, container); c != nil {
		return c.ImagePullPolicy
	}
	return ""
}

// cannotCreate are the reasons of a container that waits because it could not be created or started.
var cannotCreate = []string{duty.CreateContainer, duty.CreateContainerConfig, duty.RunContainer, "PostStartHookError"}

var (
	// ofThisPod is what a kubelet adds to say whose container it means, which who reads of a pod knows.
	ofThisPod = regexp.MustCompile(` \(pod: "[^"]*", container: [^)]*\)$`)
	// asRoot is what it says of a container with runAsNonRoot that would run as root, or whose user is not known by number.
	asRoot = regexp.MustCompile(`image will run as root|cannot verify user is non-root|breaks non-root policy`)
)

// podStart is a container that cannot be created for another reason than its image.
func podStart(v *podView) (all []why.Cause) {
	if v.ended() {
		return nil
	}
	for _, s := range v.statuses() {
		w := s.State.Waiting
		if w == nil || !slices.Contains(cannotCreate, w.Reason) {
			continue
		}
		if len(podReferences(v)) > 0 && w.Reason == duty.CreateContainerConfig {
			continue // what is missing says more
		}
		said := ofThisPod.ReplaceAllString(w.Message, "")
		c := why.Cause{
			Type: w.Reason, Brief: cmp.Or(why.Clause(said), w.Reason),
			Message: fmt.Sprintf("Container %s cannot be created: %s", s.Name, why.Sentence(said)),
			Details: map[string]string{"container": s.Name},
		}
		if asRoot.MatchString(said) {
			c.Message += " Set securityContext.runAsUser to the number of a user, not 0, in the manifest, or have the image name one (USER)."
		}
		v.again(&c, s.Name)
		all = append(all, c)
	}
	return all
}
