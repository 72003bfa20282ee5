package admit

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/jobd/jobd/api/authorization"
	"github.com/jobd/jobd/api/creation"
	"github.com/jobd/jobd/api/hostimage"
	"github.com/jobd/jobd/api/podsecurity"
	"github.com/jobd/jobd/api/runas"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/store"
)

// PodSecurity decides about changes of pods, and of objects with pod templates (Pod Security Admission); new ones are a rule of
// package creation. It also checks the labels by which a namespace says which pods it takes. Beyond what a cluster does, its
// method Reaches keeps those who cannot change the labels out of the containers of pods that they could not have created.
type PodSecurity struct {
	Store  *store.Store
	Access *authorization.Authorizer
	Policy *podsecurity.Policy
	// HostRoot is as in HostImage.
	HostRoot bool
}

var _ admission.ValidationInterface = PodSecurity{}

func (PodSecurity) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

func (s PodSecurity) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() == corev1.Resource("namespaces") {
		return creation.Reviewed(ctx, s.Policy.ReviewNamespace(ctx, creation.PodSecurityAttributes{Attributes: a}, s.Pods))
	}
	if a.GetOperation() == admission.Create {
		return nil
	}
	return answer(creation.CheckPodSecurity(ctx, requestOf(s.Store, a), s.Policy))
}

// Namespace reads a namespace. One that does not exist has no labels, and so the default level.
func (s PodSecurity) Namespace(name string) (*corev1.Namespace, error) {
	ns, _, err := storage.Namespace(s.Store, name)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	ns.Name = name
	return ns, nil
}

func (s PodSecurity) Pods(ctx context.Context, namespace string) ([]*corev1.Pod, error) {
	return storage.Pods(ctx, s.Store, namespace)
}

// Reaches decides whether the client of a request may reach into the containers of a pod, or to what listens in its
// network. The pod may be older than the level of its namespace, or have been created by somebody who is exempt; a client
// that gets into it can do all that it can do. What asks has found the pod that it is about to connect to: a name in a
// request can be written in several ways, and may be that of a Service.
func (s PodSecurity) Reaches(ctx context.Context, pod *corev1.Pod) error {
	who, ok := request.UserFrom(ctx)
	if !ok {
		return apierrors.NewInternalError(fmt.Errorf("it is not known who wants to reach pod %s", pod.Name))
	}
	ns, err := s.Namespace(pod.Namespace)
	if err != nil {
		return err
	}
	refusal := s.Policy.Refusal(ctx, ns, pod, admissionv1.Connect, who.GetName())
	if refusal == nil {
		refusal = runsAs(ns, pod)
	}
	if refusal == nil && hostimage.Uses(&pod.Spec) {
		refusal = mayRunHere(ctx, ns, who.GetName(), s.HostRoot)
	}
	if refusal == nil {
		return nil
	}
	if may, err := s.mayChangeLabels(ctx, who, ns.Name); err != nil || may {
		return err
	}
	return apierrors.NewForbidden(corev1.Resource("pods"), pod.Name,
		fmt.Errorf("only who may change its namespace reaches its containers, since it would be refused now: %v",
			refusal))
}

// runsAs returns why a pod does not run as the user of its namespace, if that has one: it may be older than the annotation, or be in
// groups that the user has left.
func runsAs(ns *corev1.Namespace, pod *corev1.Pod) error {
	id, err := runas.Of(ns)
	if id == nil {
		return err
	}
	if errs := id.Check(&pod.Spec, field.NewPath("spec"), true); len(errs) > 0 {
		return errs[:1].ToAggregate()
	}
	return nil
}

// mayChangeLabels reports whether somebody could choose another level for a namespace.
func (s PodSecurity) mayChangeLabels(ctx context.Context, who user.Info, namespace string) (bool, error) {
	decision, _, err := s.Access.Authorize(ctx, authorizer.AttributesRecord{
		User: who, Verb: "update", Namespace: namespace, APIVersion: "v1", Resource: "namespaces", Name: namespace,
		ResourceRequest: true,
	})
	return decision == authorizer.DecisionAllow, err
}
