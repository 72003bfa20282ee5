package claim

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/ephemeral"

	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// Use is a claim that a pod uses.
type Use struct {
	// Key is the namespace and name of the claim.
	Key string
	// Name is that of the claim, Volume that of the pod's volume.
	Name, Volume string
	// Own says that the claim is made for the pod, from the template in a volume of the type ephemeral.
	Own bool
}

// Key returns the key of a claim in the store.
func Key(namespace, name string) string { return store.Key(objects.Claims, namespace, name) }

// UsesOf returns the claims that a pod uses. One that shows a pod of a cluster uses those of that.
func UsesOf(p *corev1.Pod) []Use {
	if clusters.Shown(p) {
		return nil
	}
	var uses []Use
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		switch {
		case v.PersistentVolumeClaim != nil:
			name := v.PersistentVolumeClaim.ClaimName
			uses = append(uses, Use{Key: Key(p.Namespace, name), Name: name, Volume: v.Name})
		case v.Ephemeral != nil:
			name := ephemeral.VolumeClaimName(p, v)
			uses = append(uses, Use{Key: Key(p.Namespace, name), Name: name, Volume: v.Name, Own: true})
		}
	}
	return uses
}

// State is what pods need to know of a claim.
type State struct {
	UID      types.UID
	Bound    bool
	Lost     bool
	Deleting bool
	// Delays says that its volume is bound or created for its first pod.
	Delays bool
	// Why is why no volume has been created for it, if that was tried.
	Why string
	// Volume is the name of its volume; Elsewhere says that this is not for this node.
	Volume    string
	Elsewhere bool
	// OnePod says that only one pod at a time may use it, User which pod that is.
	OnePod bool
	User   types.UID
	// Owner is the pod that the claim was made for, if any.
	Owner types.UID
}

// StateOf returns what a claim says of itself.
func StateOf(c *corev1.PersistentVolumeClaim) State {
	s := State{
		UID: c.UID, Bound: c.Status.Phase == corev1.ClaimBound, Lost: c.Status.Phase == corev1.ClaimLost,
		Deleting: c.DeletionTimestamp != nil, Volume: c.Spec.VolumeName, OnePod: onePod(c),
	}
	if owner := metav1.GetControllerOfNoCopy(c); owner != nil && owner.Kind == "Pod" {
		s.Owner = owner.UID
	}
	return s
}

// Waits returns whether a pod has to wait for a claim that it uses, and why in a scheduler's words. There are none while
// the volume is being bound or created, which is soon done. s is nil if there is no such claim.
func Waits(pod types.UID, podName string, u Use, namespace string, s *State) (why string, waits bool) {
	switch {
	case s == nil && u.Own:
		return fmt.Sprintf("waiting for ephemeral volume controller to create the persistentvolumeclaim %q", u.Name), true
	case s == nil:
		return fmt.Sprintf("persistentvolumeclaim %q not found", u.Name), true
	case u.Own && s.Owner != pod:
		return NotOwner(namespace, u.Name, podName), true
	case s.Lost:
		return fmt.Sprintf("persistentvolumeclaim %q bound to non-existent persistentvolume %q", u.Name, s.Volume), true
	case s.Deleting:
		return fmt.Sprintf("persistentvolumeclaim %q is being deleted", u.Name), true
	case !s.Bound && s.Why != "":
		return s.Why, true
	case !s.Bound && !s.Delays:
		return "pod has unbound immediate PersistentVolumeClaims", true
	case !s.Bound:
		return "", true
	case s.Elsewhere:
		return "1 node(s) didn't match PersistentVolume's node affinity", true
	case s.OnePod && s.User != "" && s.User != pod:
		return "1 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by " +
			"another pod", true
	}
	return "", false
}

// NotOwner returns what is said of a claim that has the name of one to be made for a pod, and is another's.
func NotOwner(namespace, name, pod string) string {
	return fmt.Sprintf("PVC %s/%s was not created for pod %s/%s (pod is not owner)", namespace, name, namespace, pod)
}
