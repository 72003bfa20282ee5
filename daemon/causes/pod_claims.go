package causes

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/daemon/claim"
)

// podClaims are claims that are not bound to a volume, and why they are not.
func podClaims(v *podView) (all []why.Cause) {
	if v.ended() || v.pod.Spec.NodeName != "" || v.Claim == nil {
		return nil
	}
	for _, use := range claim.UsesOf(v.pod) {
		obj, said := v.Claim(v.pod.Namespace, use.Name)
		if obj == nil || obj.Status.Phase == corev1.ClaimBound || said == nil || said.Reason == claim.WaitForFirstConsumer {
			continue
		}
		c := why.Cause{
			Type: "ClaimUnbound", Object: about("PersistentVolumeClaim", obj), Since: why.At(core.LastSeen(said)),
			Message: "is not bound to a volume: " + why.Sentence(said.Message),
			Details: map[string]string{"reason": said.Reason},
		}
		if notMade(said) {
			c.Brief = "claim " + use.Name + ": no volume is made for it: " + why.Clause(said.Message)
			if class := ptr.Deref(obj.Spec.StorageClassName, ""); said.Reason == claim.ExternalProvisioning && class != "" {
				c.Brief = fmt.Sprintf("claim %s: nothing here makes volumes of the class %s", use.Name, class)
			}
		}
		if name := obj.Spec.VolumeName; name != "" && said.Reason == claim.FailedBinding {
			c.Details["volume"] = name
			c.Help = []string{"jobctl get pv"}
		}
		all = append(all, c)
	}
	return all
}

// notMade reports whether the last that was said about a claim is that no volume is made for it.
func notMade(said *corev1.Event) bool {
	return said != nil && (said.Reason == claim.ExternalProvisioning || said.Reason == claim.ProvisioningFailed)
}
