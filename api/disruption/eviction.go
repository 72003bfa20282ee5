package disruption

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// mostDisrupted is how many evictions may be allowed whose pods are not being deleted yet.
const mostDisrupted = 2000

// Guards reports whether a budget may refuse the eviction of a pod: not if the pod has ended, is being deleted or has not begun.
func Guards(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed &&
		p.Status.Phase != corev1.PodPending
}

// Free reports whether a pod may be evicted without using up anything of a budget: it is not healthy, so nothing is lost
// (PodDisruptionBudgetSpec.UnhealthyPodEvictionPolicy).
func Free(b *policyv1.PodDisruptionBudget, p *corev1.Pod) bool {
	s := &b.Status
	return !ready(p) && (ptr.Deref(b.Spec.UnhealthyPodEvictionPolicy, policyv1.IfHealthyBudget) == policyv1.AlwaysAllow ||
		s.CurrentHealthy >= s.DesiredHealthy && s.DesiredHealthy > 0)
}

// Take uses up one disruption of a budget for a pod, in its status. The error is what a cluster answers if there is none.
func Take(b *policyv1.PodDisruptionBudget, pod string, now time.Time) error {
	s := &b.Status
	switch {
	case s.ObservedGeneration < b.Generation:
		return Processing(b.Name)
	case len(s.DisruptedPods) > mostDisrupted:
		err := apierrors.NewForbidden(policyv1.Resource("poddisruptionbudget"), b.Name,
			errors.New("DisruptedPods map too big - too many evictions not confirmed by PDB controller"))
		return because(
			err,
			"The disruption budget %s does not allow evicting pods currently: too many pending evictions not confirmed by PDB controller",
			b.Name,
		)
	case s.DisruptionsAllowed <= 0:
		return because(apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0), "%s", refusal(b))
	}
	s.DisruptionsAllowed--
	if s.DisruptionsAllowed == 0 {
		setAllowed(s, now)
	}
	if s.DisruptedPods == nil {
		s.DisruptedPods = map[string]metav1.Time{}
	}
	s.DisruptedPods[pod] = metav1.NewTime(now)
	return nil
}

// Processing is the error of an eviction that is to be tried again soon, since the status of a budget is not up to date.
func Processing(budget string) error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 10)
	return because(err, "The disruption budget %s is still being processed by the server.", budget)
}

func because(err *apierrors.StatusError, format string, args ...any) error {
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes,
		metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: fmt.Sprintf(format, args...)})
	return err
}

// refusal says why a budget allows no disruption.
func refusal(b *policyv1.PodDisruptionBudget) string {
	s := &b.Status
	c := meta.FindStatusCondition(s.Conditions, policyv1.DisruptionAllowedCondition)
	switch {
	case c != nil && c.Reason == policyv1.SyncFailedReason && c.Message != "":
		return fmt.Sprintf("The disruption budget %s does not allow evicting pods currently because it failed sync: %s", b.Name, c.Message)
	case s.CurrentHealthy <= s.DesiredHealthy:
		return fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently", b.Name, s.DesiredHealthy, s.CurrentHealthy)
	}
	return fmt.Sprintf("The disruption budget %s does not allow evicting pods currently", b.Name)
}
