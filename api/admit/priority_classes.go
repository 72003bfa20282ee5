package admit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/roles"
	"github.com/jobd/jobd/api/scheduling"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/store"
)

// PriorityClasses keeps the built-in classes, and one default class. And it keeps the built-in ones for kube-system and for those who
// administer the machine: a pod of them ends the pods of everybody else for its room. Clusters of today leave that to quotas, which
// their nodes' owner has to know of; here the pods of different people share one machine from the start. The pods of a Job are not
// asked about again, since whoever made it was.
type PriorityClasses struct{ Store *store.Store }

var (
	_ admission.ValidationInterface = PriorityClasses{}

	ClassResource = schema.GroupResource{Group: schedulingv1.GroupName, Resource: "priorityclasses"}
)

// Handles implements admission.Interface.
func (PriorityClasses) Handles(op admission.Operation) bool { return op != admission.Connect }

// Validate implements admission.ValidationInterface.
func (r PriorityClasses) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != ClassResource {
		return r.reserved(a)
	}
	if a.GetOperation() == admission.Delete {
		if scheduling.IsBuiltin(a.GetName()) {
			return apierrors.NewForbidden(ClassResource, a.GetName(),
				errors.New("this is a system priority class and cannot be deleted"))
		}
		return nil
	}
	class, ok := a.GetObject().(*schedulingv1.PriorityClass)
	if !ok || !class.GlobalDefault {
		return nil
	}
	var classes []*schedulingv1.PriorityClass
	if err := r.Store.View(func(s *store.Snapshot) (err error) {
		classes, err = storage.PriorityClasses(s)
		return err
	}); err != nil {
		return apierrors.NewInternalError(err)
	}
	for _, c := range classes {
		if c.GlobalDefault && c.Name != class.Name {
			return admission.NewForbidden(a,
				fmt.Errorf("PriorityClass %s is already marked as default. Only one default can exist", c.Name))
		}
	}
	return nil
}

// reserved refuses what names a built-in class that its client may not use.
func (PriorityClasses) reserved(a admission.Attributes) error {
	if a.GetOperation() == admission.Delete || a.GetSubresource() != "" {
		return nil
	}
	if a.GetNamespace() == metav1.NamespaceSystem || roles.Administers(a.GetUserInfo()) {
		return nil
	}
	had := classesOf(a.GetOldObject())
	for _, class := range classesOf(a.GetObject()) {
		if scheduling.IsBuiltin(class) && (a.GetOperation() != admission.Update || !slices.Contains(had, class)) {
			return admission.NewForbidden(a, fmt.Errorf("pods with the priority class %s are only for administrators, and for the namespace %s",
				class, metav1.NamespaceSystem))
		}
	}
	return nil
}

// classesOf returns the classes that an object gives its pods, "" where it names none.
func classesOf(obj runtime.Object) (classes []string) {
	switch o := obj.(type) {
	case *schedulingv1beta1.PodGroup:
		return []string{o.Spec.PriorityClassName}
	case *schedulingv1beta1.Workload: // the groups of which are made for it
		for i := range o.Spec.PodGroupTemplates {
			classes = append(classes, o.Spec.PodGroupTemplates[i].PriorityClassName)
		}
	}
	for t := range podspec.Templates(obj) {
		classes = append(classes, t.Spec.PriorityClassName)
	}
	return classes
}
