package server

import (
	"context"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/pod-security-admission/api"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/podsecurity"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

// podSecurity refuses pods that their namespace does not allow (Pod Security Admission, and a list of host paths),
// warns about templates of such pods, and checks the labels of namespaces that say which those are. Beyond what a
// cluster does, its method reaches keeps those who cannot change the labels out of the containers of pods that they
// could not have created.
type podSecurity struct{ server *Server }

var _ admission.ValidationInterface = podSecurity{}

func (podSecurity) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

func (s podSecurity) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	resource := a.GetResource().GroupResource()
	if !podsecurity.Concerns(resource) {
		return nil
	}
	policy := s.server.config.PodSecurity
	var answer *admissionv1.AdmissionResponse
	if resource == corev1.Resource("namespaces") {
		answer = policy.ReviewNamespace(ctx, attributesOf{a}, s.server.storedPods)
	} else {
		ns, err := s.namespace(a.GetNamespace())
		if err != nil {
			return err
		}
		answer = policy.Review(ctx, attributesOf{a}, ns)
	}
	for _, w := range answer.Warnings {
		warning.AddWarning(ctx, "", w)
	}
	for key, value := range answer.AuditAnnotations {
		audit.AddAuditAnnotation(ctx, api.AuditAnnotationPrefix+key, value)
	}
	return podsecurity.Refused(answer)
}

// namespace reads a namespace. One that does not exist has no labels, and so the default level.
func (s podSecurity) namespace(name string) (*corev1.Namespace, error) {
	ns, _, err := s.server.namespace(name)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	ns.Name = name
	return ns, nil
}

// reaches decides whether the client of a request may reach into the containers of a pod, or to what listens in its
// network. The pod may be older than the level of its namespace, or have been created by somebody who is exempt; a client
// that gets into it can do all that it can do. What asks has found the pod that it is about to connect to: a name in a
// request can be written in several ways, and may be that of a Service.
func (s podSecurity) reaches(ctx context.Context, pod *corev1.Pod) error {
	who, ok := request.UserFrom(ctx)
	if !ok {
		return apierrors.NewInternalError(fmt.Errorf("it is not known who wants to reach pod %s", pod.Name))
	}
	ns, err := s.namespace(pod.Namespace)
	if err != nil {
		return err
	}
	refusal := s.server.config.PodSecurity.Refusal(ctx, ns, pod, admissionv1.Connect, who.GetName())
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

// mayChangeLabels reports whether somebody could choose another level for a namespace.
func (s podSecurity) mayChangeLabels(ctx context.Context, who user.Info, namespace string) (bool, error) {
	decision, _, err := s.server.authorize(ctx, authorizer.AttributesRecord{
		User: who, Verb: "update", Namespace: namespace, APIVersion: "v1", Resource: "namespaces", Name: namespace,
		ResourceRequest: true,
	})
	return decision == authorizer.DecisionAllow, err
}

// asGoodAsRoot returns a warning for an administrator that grants a role with which its holder can become root of the
// host; empty if that is not so, or obvious from the role.
func (s *Server) asGoodAsRoot(r role) (string, error) {
	if r.name == core.RoleRead || r == (role{name: core.RoleAdmin}) {
		return "", nil
	}
	var open []string
	look := func(ns *corev1.Namespace) {
		if !s.config.PodSecurity.Limits(ns) {
			open = append(open, ns.Name)
		}
	}
	if r.namespace != "" {
		ns, err := podSecurity{s}.namespace(r.namespace)
		if err != nil {
			return "", err
		}
		look(ns)
	} else if err := s.config.Store.View(func(snapshot *store.Snapshot) (err error) {
		snapshot.Range(store.Key("namespaces", "", ""), "", func(o store.Object) bool {
			ns := &corev1.Namespace{}
			if err = scheme.Decode(o.Value, ns); err == nil {
				look(ns)
			}
			return err == nil
		})
		return err
	}); err != nil {
		return "", err
	}
	if len(open) == 0 {
		return "", nil
	}
	return fmt.Sprintf("whoever has this kubeconfig can become root of this host, because privileged pods are allowed in "+
		"the namespace(s) %s: label them pod-security.kubernetes.io/enforce=baseline, or start jobd with --pod-security-enforce baseline",
		strings.Join(open, ", ")), nil
}

// storedPods returns all pods of a namespace. It fails when ctx ends first.
func (s *Server) storedPods(ctx context.Context, namespace string) (pods []*corev1.Pod, err error) {
	viewed := s.config.Store.View(func(snapshot *store.Snapshot) error {
		snapshot.Range(store.Key("pods", namespace, ""), "", func(o store.Object) bool {
			pod := &corev1.Pod{}
			if err = ctx.Err(); err == nil {
				err = scheme.Decode(o.Value, pod)
			}
			pods = append(pods, pod)
			return err == nil
		})
		return err
	})
	return pods, viewed
}

// attributesOf adapts the attributes of a request to the interface of the library.
type attributesOf struct{ admission.Attributes }

func (a attributesOf) GetOperation() admissionv1.Operation {
	return admissionv1.Operation(a.Attributes.GetOperation())
}

func (a attributesOf) GetObject() (runtime.Object, error)    { return a.Attributes.GetObject(), nil }
func (a attributesOf) GetOldObject() (runtime.Object, error) { return a.Attributes.GetOldObject(), nil }
func (a attributesOf) GetUserName() string                   { return a.GetUserInfo().GetName() }
