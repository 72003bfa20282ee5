package admit

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/store"
)

// TemplateReferences warns clients that create a Job, a CronJob or a pod of what it names that is not there. Without its
// ServiceAccount or a class the pods of a Job are refused one by one, each time for the first of them that is missing; on a
// node that does not exist nobody starts a pod.
type TemplateReferences struct{ Store *store.Store }

var _ admission.ValidationInterface = TemplateReferences{}

func (TemplateReferences) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

func (r TemplateReferences) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetSubresource() != "" {
		return nil
	}
	spec, path := podspec.Of(a.GetObject())
	if spec == nil {
		return nil
	}
	var old []named
	if was, _ := podspec.Of(a.GetOldObject()); was != nil {
		old = references(a.GetNamespace(), was)
	}
	_, isPod := a.GetObject().(*corev1.Pod)
	return r.Store.View(func(s *store.Snapshot) error {
		for i, n := range references(a.GetNamespace(), spec) {
			if n.name == "" || old != nil && old[i] == n {
				continue
			}
			if _, ok := s.Get(n.key); ok {
				continue
			}
			switch {
			case n.kind == "Node":
				warning.AddWarning(ctx, "", fmt.Sprintf("%s: there is no Node %q: a pod that names it stays Pending",
					path.Child(n.field), n.name))
			case !isPod: // a pod is refused
				warning.AddWarning(ctx, "", fmt.Sprintf("%s: there is no %s %q: no pod is created until there is one",
					path.Child(n.field), n.kind, n.name))
			}
		}
		return nil
	})
}

// named is an object that a pod's spec names, in one of its fields.
type named struct{ field, kind, name, key string }

// references returns what a pod cannot do without, with an empty name where it names nothing. The default ServiceAccount is
// made with its namespace.
func references(namespace string, spec *corev1.PodSpec) []named {
	account := spec.ServiceAccountName
	if account == core.DefaultServiceAccount {
		account = ""
	}
	class, priority := ptr.Deref(spec.RuntimeClassName, ""), spec.PriorityClassName
	return []named{
		{"serviceAccountName", "ServiceAccount", account, store.Key("serviceaccounts", namespace, account)},
		{"priorityClassName", "PriorityClass", priority, store.Key("priorityclasses."+schedulingv1.GroupName, "", priority)},
		{"runtimeClassName", "RuntimeClass", class, store.Key("runtimeclasses."+nodev1.GroupName, "", class)},
		{"nodeName", "Node", spec.NodeName, store.Key("nodes", "", spec.NodeName)},
	}
}
