package causes

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/why"
)

// podClaim is a claim for which a pod is not admitted, although it exists.
func podClaim(v *podView) []why.Cause {
	w, ok := v.Claims[v.pod.UID]
	if !ok || v.ended() {
		return nil
	}
	if missing, known := v.missing("PersistentVolumeClaim", w.Claim); missing && known {
		return nil // podReferences says it
	}
	c := why.Cause{
		Type: "WaitsForClaim", Object: &why.Reference{Kind: "PersistentVolumeClaim", Namespace: v.pod.Namespace, Name: w.Claim},
		Since: why.At(v.pod.CreationTimestamp.Time), Details: map[string]string{"claim": w.Claim},
	}
	switch {
	case w.Volume != "":
		c.Details["volume"], c.Details["hosts"] = w.Volume, w.Hosts
		c.Brief = fmt.Sprintf("volume %s is for another machine: %s", w.Volume, w.Hosts)
		c.Message = fmt.Sprintf("is bound to the PersistentVolume %s, whose nodeAffinity asks for another machine: %s.", w.Volume, w.Hosts)
		c.Help = []string{"jobctl get persistentvolumes/" + w.Volume + " -o yaml", "jobctl get nodes --show-labels"}
	case w.User != nil:
		c.Brief = fmt.Sprintf("claim %s is in use by pod %s", w.Claim, w.User.Name)
		c.Message = fmt.Sprintf("is ReadWriteOncePod, so one pod at a time may use it, and the pod %s does.", w.User.Name)
		c.Causes = []why.Cause{{Type: "Holds", Object: w.User, Message: "uses the claim."}}
	case w.Why != "":
		c.Brief = fmt.Sprintf("claim %s: %s", w.Claim, why.Clause(w.Why))
		c.Message = "keeps it waiting: " + why.Sentence(w.Why)
		c.Help = []string{"jobctl describe pvc/" + w.Claim + why.InNamespace(v.pod.Namespace)}
	default:
		if v.Claim != nil && v.pod.Spec.NodeName == "" {
			if obj, said := v.Claim(v.pod.Namespace, w.Claim); obj != nil && obj.Status.Phase != corev1.ClaimBound && notMade(said) {
				return nil // podClaims says it
			}
		}
		c.Brief = fmt.Sprintf("claim %s: its volume is being made", w.Claim)
		c.Message = "is getting its volume."
		c.Help = []string{"jobctl describe pvc/" + w.Claim + why.InNamespace(v.pod.Namespace)}
	}
	return []why.Cause{c}
}

// missing asks whether an object in the namespace of the pod does not exist.
func (v *podView) missing(kind, name string) (missing, known bool) {
	if v.Missing == nil {
		return false, false
	}
	return v.Missing(kind, v.pod.Namespace, name)
}
