package server

import (
	"context"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
)

// review is one of the questions that clients have about themselves: who am I (kubectl auth whoami), may I (kubectl
// auth can-i), what may I. Nothing is stored.
type review struct {
	singular string
	empty    func() runtime.Object
	answer   func(ctx context.Context, who user.Info, question runtime.Object) error
}

var (
	_ rest.Creater              = &review{}
	_ rest.Scoper               = &review{}
	_ rest.SingularNameProvider = &review{}
)

func (r *review) New() runtime.Object     { return r.empty() }
func (r *review) Destroy()                {}
func (r *review) NamespaceScoped() bool   { return false }
func (r *review) GetSingularName() string { return r.singular }

func (r *review) Create(
	ctx context.Context, question runtime.Object, validate rest.ValidateObjectFunc, _ *metav1.CreateOptions,
) (runtime.Object, error) {
	who, ok := request.UserFrom(ctx)
	if !ok {
		return nil, apierrors.NewBadRequest("no user present on request")
	}
	if validate != nil {
		if err := validate(ctx, question.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	return question, r.answer(ctx, who, question)
}

func whoAmI() *review {
	return &review{
		singular: "selfsubjectreview",
		empty:    func() runtime.Object { return &authenticationv1.SelfSubjectReview{} },
		answer: func(_ context.Context, who user.Info, question runtime.Object) error {
			r := question.(*authenticationv1.SelfSubjectReview)
			r.CreationTimestamp = metav1.Now()
			info := &r.Status.UserInfo
			*info = authenticationv1.UserInfo{Username: who.GetName(), UID: who.GetUID(), Groups: who.GetGroups()}
			for key, values := range who.GetExtra() {
				if info.Extra == nil {
					info.Extra = map[string]authenticationv1.ExtraValue{}
				}
				info.Extra[key] = values
			}
			return nil
		},
	}
}

func (s *Server) mayI() *review {
	return &review{
		singular: "selfsubjectaccessreview",
		empty:    func() runtime.Object { return &authorizationv1.SelfSubjectAccessReview{} },
		answer: func(ctx context.Context, who user.Info, question runtime.Object) error {
			r := question.(*authorizationv1.SelfSubjectAccessReview)
			resource, path := r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes
			asked := authorizer.AttributesRecord{User: who}
			switch {
			case (resource == nil) == (path == nil):
				detail := "exactly one of nonResourceAttributes or resourceAttributes must be specified"
				if resource != nil {
					detail = "cannot be specified in combination with resourceAttributes"
				}
				return apierrors.NewInvalid(authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview").GroupKind(), "",
					field.ErrorList{field.Invalid(field.NewPath("spec", "nonResourceAttributes"), path, detail)})
			case path != nil:
				asked.Path, asked.Verb = path.Path, path.Verb
			default:
				asked.ResourceRequest = true
				asked.Verb, asked.Namespace, asked.Name = resource.Verb, resource.Namespace, resource.Name
				asked.APIGroup, asked.APIVersion = resource.Group, resource.Version
				asked.Resource, asked.Subresource = resource.Resource, resource.Subresource
			}
			decision, reason, err := s.authorize(ctx, asked)
			r.Status = authorizationv1.SubjectAccessReviewStatus{
				Allowed: decision == authorizer.DecisionAllow, Denied: decision == authorizer.DecisionDeny,
				Reason: reason,
			}
			if err != nil {
				r.Status.EvaluationError = err.Error()
			}
			return nil
		},
	}
}

// ownReviews lists the resources by which a client asks about itself: every authenticated client may, and nothing is
// written.
var ownReviews = []schema.GroupResource{
	authenticationv1.Resource("selfsubjectreviews"),
	authorizationv1.Resource("selfsubjectaccessreviews"),
	authorizationv1.Resource("selfsubjectrulesreviews"),
}

func isOwnReview(verb, group, resource string) bool {
	return verb == "create" && slices.Contains(ownReviews, schema.GroupResource{Group: group, Resource: resource})
}
