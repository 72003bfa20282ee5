package authorization

import (
	"context"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/jobd/jobd/api/tokens"
)

// Review is one of the questions that clients have about identities and rights: who am I (kubectl auth whoami), whose token
// is this, may I (kubectl auth can-i), what may I, and may somebody else. Nothing is stored.
type Review struct {
	singular   string
	namespaced bool
	empty      func() runtime.Object
	answer     func(ctx context.Context, who user.Info, question runtime.Object) error
}

var (
	_ rest.Creater              = &Review{}
	_ rest.Scoper               = &Review{}
	_ rest.SingularNameProvider = &Review{}
)

// newReview makes one from what answers questions of a kind.
func newReview[T any, P interface {
	*T
	runtime.Object
}](singular string, answer func(ctx context.Context, who user.Info, question P) error) *Review {
	return &Review{
		singular: singular, empty: func() runtime.Object { return P(new(T)) },
		answer: func(ctx context.Context, who user.Info, question runtime.Object) error {
			return answer(ctx, who, question.(P))
		},
	}
}

func (r *Review) New() runtime.Object     { return r.empty() }
func (r *Review) Destroy()                {}
func (r *Review) NamespaceScoped() bool   { return r.namespaced }
func (r *Review) GetSingularName() string { return r.singular }

func (r *Review) Create(
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

func WhoAmI() *Review {
	return newReview("selfsubjectreview", func(_ context.Context, who user.Info, r *authenticationv1.SelfSubjectReview) error {
		r.CreationTimestamp = metav1.Now()
		r.Status.UserInfo = userInfo(who)
		return nil
	})
}

func userInfo(who user.Info) authenticationv1.UserInfo {
	info := authenticationv1.UserInfo{Username: who.GetName(), UID: who.GetUID(), Groups: who.GetGroups()}
	for key, values := range who.GetExtra() {
		if info.Extra == nil {
			info.Extra = map[string]authenticationv1.ExtraValue{}
		}
		info.Extra[key] = values
	}
	return info
}

// WhoseToken answers whom this API knows a token of, for services that get requests with tokens. That a token is not valid
// is an answer, no error.
func WhoseToken(bearers authenticator.Token) *Review {
	known := group.NewTokenGroupAdder(bearers, []string{user.AllAuthenticated})
	return newReview("tokenreview", func(ctx context.Context, _ user.Info, r *authenticationv1.TokenReview) error {
		if r.Spec.Token == "" {
			return apierrors.NewBadRequest("token is required for TokenReview in authentication")
		}
		audiences := r.Spec.Audiences
		if len(audiences) == 0 {
			audiences = []string{tokens.Audience}
		}
		r.Status = authenticationv1.TokenReviewStatus{}
		found, ok, err := known.AuthenticateToken(authenticator.WithAudiences(ctx, audiences), r.Spec.Token)
		switch {
		case err != nil:
			r.Status.Error = err.Error()
		case !ok:
			r.Status.Error = "invalid bearer token"
		default:
			r.Status.Authenticated, r.Status.User, r.Status.Audiences = true, userInfo(found.User), found.Audiences
		}
		return nil
	})
}

func (s *Authorizer) MayI() *Review {
	return newReview("selfsubjectaccessreview", func(
		ctx context.Context, who user.Info, r *authorizationv1.SelfSubjectAccessReview,
	) error {
		resource, path := r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes
		if (resource == nil) == (path == nil) {
			detail := "exactly one of nonResourceAttributes or resourceAttributes must be specified"
			if resource != nil {
				detail = "cannot be specified in combination with resourceAttributes"
			}
			return invalid("SelfSubjectAccessReview",
				field.ErrorList{field.Invalid(field.NewPath("spec", "nonResourceAttributes"), path, detail)})
		}
		r.Status = s.accessOf(ctx, who, resource, path)
		return nil
	})
}

func invalid(kind string, errs field.ErrorList) error {
	return apierrors.NewInvalid(authorizationv1.SchemeGroupVersion.WithKind(kind).GroupKind(), "", errs)
}

// accessOf answers whether somebody may do something: exactly one of resource and path is set.
func (s *Authorizer) accessOf(
	ctx context.Context, who user.Info, resource *authorizationv1.ResourceAttributes,
	path *authorizationv1.NonResourceAttributes,
) authorizationv1.SubjectAccessReviewStatus {
	asked := authorizer.AttributesRecord{User: who}
	if path != nil {
		asked.Path, asked.Verb = path.Path, path.Verb
	} else {
		asked.ResourceRequest = true
		asked.Verb, asked.Namespace, asked.Name = resource.Verb, resource.Namespace, resource.Name
		asked.APIGroup, asked.APIVersion = resource.Group, resource.Version
		asked.Resource, asked.Subresource = resource.Resource, resource.Subresource
	}
	decision, reason, err := s.Authorize(ctx, asked)
	status := authorizationv1.SubjectAccessReviewStatus{
		Allowed: decision == authorizer.DecisionAllow, Denied: decision == authorizer.DecisionDeny, Reason: reason,
	}
	if err != nil {
		status.EvaluationError = err.Error()
	}
	return status
}

// MaySomebody answers whether another user may do something.
func (s *Authorizer) MaySomebody() *Review {
	return newReview("subjectaccessreview", func(ctx context.Context, _ user.Info, r *authorizationv1.SubjectAccessReview) error {
		errs := validateAccessReview(&r.Spec)
		if !isEmptyMeta(r.ObjectMeta) {
			errs = append(errs, field.Invalid(field.NewPath("metadata"), r.ObjectMeta, "must be empty"))
		}
		if len(errs) > 0 {
			return invalid("SubjectAccessReview", errs)
		}
		r.Status = s.accessOf(ctx, subjectOf(&r.Spec), r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes)
		return nil
	})
}

// MaySomebodyHere answers whether another user may do something in the namespace of the request.
func (s *Authorizer) MaySomebodyHere() *Review {
	review := newReview("localsubjectaccessreview", func(
		ctx context.Context, _ user.Info, r *authorizationv1.LocalSubjectAccessReview,
	) error {
		errs := validateAccessReview(&r.Spec)
		m := r.ObjectMeta
		m.Namespace = ""
		if !isEmptyMeta(m) {
			errs = append(errs, field.Invalid(field.NewPath("metadata"), r.ObjectMeta, "must be empty except for namespace"))
		}
		if a := r.Spec.ResourceAttributes; a != nil && a.Namespace != r.Namespace {
			errs = append(errs, field.Invalid(field.NewPath("spec", "resourceAttributes", "namespace"), a.Namespace,
				"must match metadata.namespace"))
		}
		if a := r.Spec.NonResourceAttributes; a != nil {
			errs = append(errs, field.Invalid(field.NewPath("spec", "nonResourceAttributes"), a,
				"disallowed on this kind of request"))
		}
		if len(errs) > 0 {
			return invalid("LocalSubjectAccessReview", errs)
		}
		if namespace := request.NamespaceValue(ctx); namespace != r.Namespace {
			return apierrors.NewBadRequest("spec.resourceAttributes.namespace must match namespace: " + namespace)
		}
		r.Status = s.accessOf(ctx, subjectOf(&r.Spec), r.Spec.ResourceAttributes, nil)
		return nil
	})
	review.namespaced = true
	return review
}

func validateAccessReview(spec *authorizationv1.SubjectAccessReviewSpec) (errs field.ErrorList) {
	if (spec.ResourceAttributes == nil) == (spec.NonResourceAttributes == nil) {
		errs = append(errs, field.Invalid(field.NewPath("spec"), spec.NonResourceAttributes,
			"exactly one of nonResourceAttributes or resourceAttributes must be specified"))
	}
	if spec.User == "" && len(spec.Groups) == 0 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "user"), spec.User,
			"at least one of user or group must be specified"))
	}
	return errs
}

func isEmptyMeta(m metav1.ObjectMeta) bool {
	m.ManagedFields = nil
	return equality.Semantic.DeepEqual(m, metav1.ObjectMeta{})
}

func subjectOf(spec *authorizationv1.SubjectAccessReviewSpec) user.Info {
	who := &user.DefaultInfo{Name: spec.User, UID: spec.UID, Groups: spec.Groups}
	for key, values := range spec.Extra {
		if who.Extra == nil {
			who.Extra = map[string][]string{}
		}
		who.Extra[key] = values
	}
	return who
}

// questions lists the resources by which clients ask about identities and rights. Nothing is written. Whether somebody may
// ask about others, roles say.
var questions = append([]schema.GroupResource{
	authenticationv1.Resource("tokenreviews"),
	authorizationv1.Resource("subjectaccessreviews"),
	authorizationv1.Resource("localsubjectaccessreviews"),
}, ownReviews...)

// ownReviews lists the resources by which a client asks about itself.
var ownReviews = []schema.GroupResource{
	authenticationv1.Resource("selfsubjectreviews"),
	authorizationv1.Resource("selfsubjectaccessreviews"),
	authorizationv1.Resource("selfsubjectrulesreviews"),
}

func IsQuestion(verb, group, resource string) bool {
	return verb == "create" && slices.Contains(questions, schema.GroupResource{Group: group, Resource: resource})
}
