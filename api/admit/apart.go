package admit

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/jobd/jobd/api/podspec"
)

// Apart refuses pods that would keep those of other people from starting. A required anti-affinity binds both sides: as long as the pod
// runs, no pod that it selects starts on its node, and here there is one node. So a term that reaches into other namespaces is for those
// who may create such objects there too. Clusters leave that to quotas of the scope CrossNamespacePodAffinity, and have other nodes. The
// pods of a Job are not asked about again, since whoever made it was.
type Apart struct {
	Access authorizer.UnconditionalAuthorizer
}

var _ admission.ValidationInterface = Apart{}

// Handles implements admission.Interface.
func (Apart) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// Validate implements admission.ValidationInterface.
func (r Apart) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetSubresource() != "" {
		return nil
	}
	var had map[string]bool
	may := map[string]bool{a.GetNamespace(): true}
	for term, at := range termsApart(a.GetObject()) {
		if had == nil {
			had = map[string]bool{}
			for old := range termsApart(a.GetOldObject()) {
				had[textOf(old)] = true
			}
		}
		if had[textOf(term)] {
			continue
		}
		for _, namespace := range reach(term) {
			allowed, asked := may[namespace]
			if !asked {
				var err error
				if allowed, err = r.creates(ctx, a, namespace); err != nil {
					return apierrors.NewInternalError(err)
				}
				may[namespace] = allowed
			}
			if !allowed {
				in := "the namespace " + namespace
				if namespace == metav1.NamespaceAll {
					in = "all namespaces"
				}
				return admission.NewForbidden(a, fmt.Errorf(
					"%s: as long as it runs it would keep pods of others from starting on this machine: that is for those who may create %s in %s",
					at, a.GetResource().GroupResource(), in))
			}
		}
	}
	return nil
}

// termsApart iterates over the terms of required anti-affinity in an object, each with its path.
func termsApart(obj runtime.Object) func(yield func(*corev1.PodAffinityTerm, *field.Path) bool) {
	return func(yield func(*corev1.PodAffinityTerm, *field.Path) bool) {
		for t, path := range podspec.Templates(obj) {
			if t.Spec.Affinity == nil || t.Spec.Affinity.PodAntiAffinity == nil {
				continue
			}
			const required = "requiredDuringSchedulingIgnoredDuringExecution"
			terms := t.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
			for i := range terms {
				if !yield(&terms[i], path.Child("affinity", "podAntiAffinity", required).Index(i)) {
					return
				}
			}
		}
	}
}

// reach returns the namespaces that a term names, metav1.NamespaceAll for a selector: which namespaces have its labels can change. A
// namespace's own name is a label of it that cannot.
func reach(term *corev1.PodAffinityTerm) []string {
	if term.NamespaceSelector == nil {
		return term.Namespaces // of none it is the pod's own
	}
	of := metav1.NamespaceAll
	if selector, err := metav1.LabelSelectorAsSelector(term.NamespaceSelector); err == nil {
		if name, one := selector.RequiresExactMatch(corev1.LabelMetadataName); one {
			of = name
		}
	}
	return append([]string{of}, term.Namespaces...)
}

func textOf(term *corev1.PodAffinityTerm) string {
	text, _ := json.Marshal(term) // it came as such
	return string(text)
}

// creates reports whether somebody may create such an object in a namespace.
func (r Apart) creates(ctx context.Context, a admission.Attributes, namespace string) (bool, error) {
	of := a.GetResource()
	decision, _, err := r.Access.Authorize(ctx, authorizer.AttributesRecord{
		User: a.GetUserInfo(), Verb: "create", Namespace: namespace, APIGroup: of.Group, APIVersion: of.Version, Resource: of.Resource,
		ResourceRequest: true,
	})
	return decision == authorizer.DecisionAllow, err
}
