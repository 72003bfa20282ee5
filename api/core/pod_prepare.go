package core

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/conditions"
	"github.com/jobd/jobd/api/podspec"
)

const (
	// corev1.PodReasonSchedulingGated is the reason of PodScheduled=False for a Pod that waits for its gates.
	// reasonNodeNamed is the reason of PodScheduled=False for a Pod that names a node which has not taken it yet.
	reasonNodeNamed = "NodeNamed"
	// unreadyGrace is how long a Pod tolerates a node that is not ready or unreachable, in seconds.
	unreadyGrace = int64(300)
)

// PreparePod brings a new Pod into the form that a cluster stores after admission: Pending, of generation 1, with its
// QoS class, priority, service account and the tolerations every Pod has. It sets a uid and a creation time if they are
// missing. Defaults must have been set.
func PreparePod(pod *corev1.Pod, now time.Time) {
	if pod.UID == "" {
		pod.UID = uuid.NewUUID()
	}
	if pod.CreationTimestamp.IsZero() {
		pod.CreationTimestamp = metav1.NewTime(now.Truncate(time.Second))
	}
	pod.Generation = 1
	delete(pod.Annotations, PausedForAnnotation)

	spec := &pod.Spec
	setDefault(&spec.ServiceAccountName, DefaultServiceAccount)
	spec.DeprecatedServiceAccount = spec.ServiceAccountName
	applyAppArmorAnnotations(pod.Annotations, spec)
	if spec.Priority == nil {
		spec.Priority = ptr.To(builtinPriority(spec.PriorityClassName))
	}
	if spec.PreemptionPolicy == nil {
		spec.PreemptionPolicy = ptr.To(corev1.PreemptLowerPriority)
	}
	TolerateUnreadyNode(spec)
	selectLike(pod)

	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: PodQOS(spec)}
	switch {
	case len(spec.SchedulingGates) > 0:
		unscheduled(pod, corev1.PodReasonSchedulingGated, "Scheduling is blocked due to non-empty scheduling gates", now)
	case spec.NodeName != "":
		NameNode(pod, spec.NodeName, now)
	}
}

// NameNode puts a Pod on a node, which has yet to take it (podspec.Bound).
func NameNode(pod *corev1.Pod, node string, now time.Time) {
	pod.Spec.NodeName = node
	pod.Status.NominatedNodeName = ""
	unscheduled(pod, reasonNodeNamed, "Waiting for the node "+node+" to take the pod", now)
}

// unscheduled says why a Pod is not bound yet.
func unscheduled(pod *corev1.Pod, reason, message string, now time.Time) {
	conditions.Set(&pod.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: message,
		ObservedGeneration: pod.Generation, LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
	})
}

// ValidateBinding checks the body of pods/NAME/binding.
func ValidateBinding(binding *corev1.Binding) (errs field.ErrorList) {
	target := field.NewPath("target")
	if kind := binding.Target.Kind; kind != "" && kind != "Node" {
		errs = append(errs, field.NotSupported(target.Child("kind"), kind, []string{"Node", "<empty>"}))
	}
	if binding.Target.Name == "" {
		errs = append(errs, field.Required(target.Child("name"), ""))
	}
	// They become those of the pod, which nobody could update afterwards if they were not valid.
	meta := field.NewPath("metadata")
	annotations := meta.Child("annotations")
	errs = append(errs, validation.ValidateAnnotations(binding.Annotations, annotations)...)
	for _, name := range slices.Sorted(maps.Keys(binding.Annotations)) { // which pods are checked for, and some are read-only
		if strings.HasPrefix(name, "jobd.dev/") {
			errs = append(errs, field.Forbidden(annotations.Key(name), "a Binding cannot set annotations of jobd"))
		}
	}
	return append(errs, metav1validation.ValidateLabels(binding.Labels, meta.Child("labels"))...)
}

// TolerateUnreadyNode adds the tolerations that every Pod has, unless the Pod sets its own.
func TolerateUnreadyNode(spec *corev1.PodSpec) {
	for _, taint := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		if !toleratesNoExecute(spec.Tolerations, taint) {
			spec.Tolerations = append(spec.Tolerations, corev1.Toleration{
				Key: taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
				TolerationSeconds: ptr.To(unreadyGrace),
			})
		}
	}
}

// preparePodUpdate keeps of the old Pod what a write of the object may not touch, and counts the generation. The
// tolerations that every Pod has come back if a manifest without them replaces the Pod.
func preparePodUpdate(pod, old *corev1.Pod) {
	TolerateUnreadyNode(&pod.Spec)
	pod.Status = old.Status
	keepPausedFor(pod, old)
	countGeneration(pod, old)
}

// countGeneration sets the generation of a changed Pod: another one where its spec has changed.
func countGeneration(pod, old *corev1.Pod) {
	pod.Generation = old.Generation
	if !equality.Semantic.DeepEqual(pod.Spec, old.Spec) {
		pod.Generation++
	}
}

// preparePodStatusUpdate keeps of the old Pod all that a write of the status may not touch.
func preparePodStatusUpdate(pod, old *corev1.Pod) {
	pod.Spec = old.Spec
	pod.Generation = old.Generation
	pod.DeletionTimestamp = old.DeletionTimestamp
	pod.DeletionGracePeriodSeconds = old.DeletionGracePeriodSeconds
	pod.OwnerReferences = old.OwnerReferences
	setDefault(&pod.Status.QOSClass, old.Status.QOSClass)
	keepScheduled(&pod.Status, old)
	keepPausedFor(pod, old)
}

// keepScheduled keeps the PodScheduled condition of a Pod that names its node: only jobd may say whether it is bound.
func keepScheduled(status *corev1.PodStatus, old *corev1.Pod) {
	if old.Spec.NodeName == "" {
		return
	}
	scheduled := func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled }
	was, is := slices.IndexFunc(old.Status.Conditions, scheduled), slices.IndexFunc(status.Conditions, scheduled)
	switch {
	case was < 0 && is >= 0:
		status.Conditions = slices.Delete(status.Conditions, is, is+1)
	case was >= 0 && is < 0:
		status.Conditions = append(status.Conditions, old.Status.Conditions[was])
	case was >= 0:
		status.Conditions[is] = old.Status.Conditions[was]
	}
}

// podGrace sets the grace period of a deletion from the request, else from the Pod, and reports whether the Pod has to
// be waited for: one that never ran or has ended is removed at once.
func podGrace(pod *corev1.Pod, options *metav1.DeleteOptions) bool {
	if options == nil {
		return false
	}
	period := int64(0)
	switch {
	case options.GracePeriodSeconds != nil:
		period = *options.GracePeriodSeconds
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		period = *pod.Spec.TerminationGracePeriodSeconds
	}
	if !podspec.Bound(pod) || podspec.Ended(pod) {
		period = 0
	}
	if period < 0 {
		period = 1
	}
	options.GracePeriodSeconds = &period
	return true
}

// builtinPriority returns the priority of the two classes that exist without an object.
func builtinPriority(class string) int32 {
	switch class {
	case "system-cluster-critical":
		return 2000000000
	case "system-node-critical":
		return 2000001000
	}
	return 0
}

func toleratesNoExecute(tolerations []corev1.Toleration, key string) bool {
	for _, t := range tolerations {
		if (t.Key == key || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "") {
			return true
		}
	}
	return false
}
