package causes

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/why"
)

// TestWhyAClaimHasNoVolume: what is being made comes by itself, what nobody makes does not.
func TestWhyAClaimHasNoVolume(t *testing.T) {
	for name, c := range map[string]struct{ reason, message, want string }{
		"it is being made":     {"Provisioning", "on it", "claim data: its volume is being made"},
		"nothing was said yet": {"", "", "claim data: its volume is being made"},
		"by a driver that is missing": {
			"ExternalProvisioning", "Waiting for a volume to be created",
			"claim data: nothing here makes volumes of the class gp3",
		},
		"it cannot be made": {"ProvisioningFailed", "no space", "claim data: no volume is made for it: no space"},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n", UID: "p"}}
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}}}
		w := World{Now: now, Claims: map[types.UID]ClaimWait{"p": {Claim: "data"}}}
		w.Claim = func(string, string) (*corev1.PersistentVolumeClaim, *corev1.Event) {
			obj := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: "n"}}
			obj.Spec.StorageClassName, obj.Status.Phase = ptr.To("gp3"), corev1.ClaimPending
			if c.reason == "" {
				return obj, nil
			}
			return obj, &corev1.Event{Reason: c.reason, Message: c.message}
		}
		if got := why.Reason(Pod(w, p, nil).Causes); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
