package core

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/jobd/jobd/api/kind"
)

const nodeRoleLabel = "node-role.kubernetes.io/"

// prepareNodeUpdate keeps the status, which has a subresource of its own, and the taint that goes with a cordon. It
// records when a taint that evicts pods (TaintEffectNoExecute) was added, since some pods may stay for a while.
func prepareNodeUpdate(node, old *corev1.Node) {
	node.Status = old.Status
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return !node.Spec.Unschedulable && isCordon(t)
	})
	if node.Spec.Unschedulable && !slices.ContainsFunc(node.Spec.Taints, isCordon) {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{
			Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule, TimeAdded: since(time.Now()),
		})
	}
	for i := range node.Spec.Taints {
		t := &node.Spec.Taints[i]
		if t.Effect != corev1.TaintEffectNoExecute || t.TimeAdded != nil {
			continue
		}
		t.TimeAdded = since(time.Now())
		for _, was := range old.Spec.Taints {
			if was.MatchTaint(t) && was.Value == t.Value && was.TimeAdded != nil {
				t.TimeAdded = was.TimeAdded
			}
		}
	}
}

func isCordon(t corev1.Taint) bool {
	return t.Key == corev1.TaintNodeUnschedulable && t.Effect == corev1.TaintEffectNoSchedule
}

func since(now time.Time) *metav1.Time {
	t := metav1.NewTime(now.Truncate(time.Second))
	return &t
}

// prepareNodeStatusUpdate keeps the spec.
func prepareNodeStatusUpdate(node, old *corev1.Node) { node.Spec = old.Spec }

// validateNode checks a new node.
func validateNode(node *corev1.Node) field.ErrorList {
	errs := validation.ValidateObjectMeta(&node.ObjectMeta, false, validation.NameIsDNSSubdomain,
		field.NewPath("metadata"))
	return append(errs, validateNodeResources(&node.Status, field.NewPath("status"))...)
}

// validateNodeResources checks what a node has. Anybody who may change a node's status can give it extended resources
// (NodeStatus.Capacity), which pods may request from then on.
func validateNodeResources(status *corev1.NodeStatus, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, list := range []struct {
		amounts corev1.ResourceList
		path    *field.Path
	}{{status.Capacity, path.Child("capacity")}, {status.Allocatable, path.Child("allocatable")}} {
		for _, name := range sortedKeys(list.amounts) {
			amount, path := list.amounts[name], list.path.Child(string(name))
			if amount.Sign() < 0 {
				errs = append(errs, field.Invalid(path, amount.String(), "must be greater than or equal to 0"))
			}
			if IsExtended(name) && amount.MilliValue()%1000 != 0 {
				errs = append(errs, field.Invalid(path, amount, "must be an integer"))
			}
		}
	}
	return errs
}

// validateNodeUpdate checks a changed node. The only node can be cordoned (NodeSpec.Unschedulable) and tainted.
func validateNodeUpdate(node, old *corev1.Node) field.ErrorList {
	errs := validation.ValidateObjectMetaUpdate(&node.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	errs = append(errs, validateNodeResources(&node.Status, field.NewPath("status"))...)
	path := field.NewPath("spec")
	errs = append(errs, validateTaints(node.Spec.Taints, path.Child("taints"))...)
	rest := node.Spec.DeepCopy()
	rest.Unschedulable, rest.Taints = old.Spec.Unschedulable, old.Spec.Taints
	if !equality.Semantic.DeepEqual(*rest, old.Spec) {
		errs = append(errs, field.Forbidden(path,
			"of jobd's node only spec.unschedulable and spec.taints may be changed"))
	}
	return errs
}

func validateTaints(taints []corev1.Taint, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range taints {
		t, path := &taints[i], path.Index(i)
		errs = append(errs, metav1validation.ValidateLabelName(t.Key, path.Child("key"))...)
		errs = append(errs, invalid(path.Child("value"), t.Value, utilvalidation.IsValidLabelValue(t.Value))...)
		errs = append(errs, oneOf(path.Child("effect"), t.Effect,
			[]corev1.TaintEffect{
				corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute,
			})...)
		if slices.ContainsFunc(taints[:i], func(other corev1.Taint) bool { return other.MatchTaint(t) }) {
			duplicate := field.Duplicate(path, *t)
			duplicate.Detail = "taints must be unique by key and effect pair"
			errs = append(errs, duplicate)
		}
	}
	return errs
}

// nodeFields returns the fields that field selectors of nodes may name, in addition to metadata.name.
func nodeFields() map[string]func(*corev1.Node) string {
	return map[string]func(*corev1.Node) string{
		"spec.unschedulable": func(n *corev1.Node) string { return strconv.FormatBool(n.Spec.Unschedulable) },
	}
}

// nodeTable is what kubectl prints of nodes.
func nodeTable() kind.Columns[*corev1.Node] {
	info, status := corev1.NodeSystemInfo{}.SwaggerDoc(), corev1.NodeStatus{}.SwaggerDoc()
	return kind.Columns[*corev1.Node]{
		kind.NameColumn[*corev1.Node](),
		{Name: "Status", Description: "The status of the node", Cell: func(n *corev1.Node, _ time.Time) any { return nodeState(n) }},
		{Name: "Roles", Description: "The roles of the node", Cell: func(n *corev1.Node, _ time.Time) any { return nodeRoles(n) }},
		kind.AgeColumn[*corev1.Node](),
		{Name: "Version", Description: info["kubeletVersion"],
			Cell: func(n *corev1.Node, _ time.Time) any { return n.Status.NodeInfo.KubeletVersion }},
		{Name: "Internal-IP", Priority: 1, Description: status["addresses"],
			Cell: func(n *corev1.Node, _ time.Time) any { return nodeAddress(n, corev1.NodeInternalIP) }},
		{Name: "External-IP", Priority: 1, Description: status["addresses"],
			Cell: func(n *corev1.Node, _ time.Time) any { return nodeAddress(n, corev1.NodeExternalIP) }},
		{Name: "OS-Image", Priority: 1, Description: info["osImage"],
			Cell: func(n *corev1.Node, _ time.Time) any { return cmp.Or(n.Status.NodeInfo.OSImage, "<unknown>") }},
		{Name: "Kernel-Version", Priority: 1, Description: info["kernelVersion"],
			Cell: func(n *corev1.Node, _ time.Time) any { return cmp.Or(n.Status.NodeInfo.KernelVersion, "<unknown>") }},
		{Name: "Container-Runtime", Priority: 1, Description: info["containerRuntimeVersion"],
			Cell: func(n *corev1.Node, _ time.Time) any {
				return cmp.Or(n.Status.NodeInfo.ContainerRuntimeVersion, "<unknown>")
			}},
	}
}

// nodeState returns whether the node is ready, and whether it takes new pods.
func nodeState(node *corev1.Node) string {
	state := "Unknown"
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			state = "Ready"
		} else if c.Type == corev1.NodeReady {
			state = "NotReady"
		}
	}
	if node.Spec.Unschedulable {
		state += ",SchedulingDisabled"
	}
	return state
}

// nodeRoles returns the roles that labels give the node.
func nodeRoles(node *corev1.Node) string {
	var roles []string
	for _, label := range sortedKeys(node.Labels) {
		if role, ok := strings.CutPrefix(label, nodeRoleLabel); ok && role != "" {
			roles = append(roles, role)
		}
	}
	return cmp.Or(strings.Join(roles, ","), none)
}

func nodeAddress(node *corev1.Node, kind corev1.NodeAddressType) string {
	for _, a := range node.Status.Addresses {
		if a.Type == kind {
			return a.Address
		}
	}
	return none
}
