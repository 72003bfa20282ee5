package server

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/tokens"
)

// accountToken serves POST .../serviceaccounts/NAME/token (kubectl create token).
type accountToken struct {
	accounts *registry.Store
	tokens   *tokens.Tokens
}

var (
	_ rest.NamedCreater             = &accountToken{}
	_ rest.GroupVersionKindProvider = &accountToken{}
	_ rest.GroupVersionAcceptor     = &accountToken{}
)

var tokenRequestKind = authenticationv1.SchemeGroupVersion.WithKind("TokenRequest")

// Bounds of TokenRequestSpec.ExpirationSeconds.
const (
	defaultTokenLife = int64(time.Hour / time.Second)
	shortestToken    = int64(10 * time.Minute / time.Second)
	longestToken     = int64(1) << 32
)

func (a *accountToken) New() runtime.Object { return &authenticationv1.TokenRequest{} }
func (a *accountToken) Destroy()            {}

func (a *accountToken) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind {
	return tokenRequestKind
}

func (a *accountToken) AcceptsGroupVersion(gv schema.GroupVersion) bool {
	return gv == authenticationv1.SchemeGroupVersion
}

func (a *accountToken) Create(
	ctx context.Context, name string, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions,
) (runtime.Object, error) {
	request := obj.(*authenticationv1.TokenRequest)
	if a.tokens == nil {
		return nil, apierrors.NewServiceUnavailable("this server issues no tokens")
	}
	if request.Name != "" && request.Name != name {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("name in URL %s does not match name in TokenRequest object: %s",
			name, request.Name))
	}
	got, err := a.accounts.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	account := got.(*corev1.ServiceAccount)
	request.Name, request.Namespace, request.CreationTimestamp = account.Name, account.Namespace, metav1.Now()
	request.Status = authenticationv1.TokenRequestStatus{}
	spec := &request.Spec
	if spec.ExpirationSeconds == nil {
		spec.ExpirationSeconds = ptr.To(defaultTokenLife)
	}
	if len(spec.Audiences) == 0 {
		spec.Audiences = []string{tokens.Audience}
	}
	if errs := validateTokenRequest(spec); len(errs) > 0 {
		return nil, apierrors.NewInvalid(tokenRequestKind.GroupKind(), "", errs)
	}
	if validate != nil {
		if err := validate(ctx, request.DeepCopy()); err != nil {
			return nil, err
		}
	}
	wanted := tokens.Request{
		Namespace: account.Namespace, Account: tokens.Ref{Name: account.Name, UID: account.UID},
		Audiences: spec.Audiences, Life: time.Duration(*spec.ExpirationSeconds) * time.Second,
	}
	if err := a.bind(&wanted, spec.BoundObjectRef); err != nil {
		return nil, err
	}
	if dryrun.IsDryRun(options.DryRun) {
		return request, nil
	}
	token, expires, err := a.tokens.Issue(wanted)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	request.Status = authenticationv1.TokenRequestStatus{Token: token, ExpirationTimestamp: metav1.NewTime(expires)}
	return request, nil
}

func validateTokenRequest(spec *authenticationv1.TokenRequestSpec) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec")
	switch life := *spec.ExpirationSeconds; {
	case life < shortestToken:
		errs = append(errs, field.Invalid(path.Child("expirationSeconds"), life,
			"may not specify a duration less than 10 minutes"))
	case life > longestToken:
		errs = append(errs, field.Invalid(path.Child("expirationSeconds"), life,
			"may not specify a duration larger than 2^32 seconds"))
	}
	if len(spec.Attestations) > 0 {
		errs = append(errs, field.Invalid(path.Child("attestations"), spec.Attestations,
			"attestations may only be specified with a webhook bound object reference"))
	}
	return errs
}

// bind ties a token to the life of an object (BoundObjectReference).
func (a *accountToken) bind(wanted *tokens.Request, ref *authenticationv1.BoundObjectReference) error {
	if ref == nil {
		return nil
	}
	var (
		bound     = &tokens.Ref{Name: ref.Name}
		namespace = wanted.Namespace
		resource  string
		obj       tokens.Object
	)
	switch gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind); gvk {
	case corev1.SchemeGroupVersion.WithKind("Pod"):
		resource, obj, wanted.Pod = "pods", &corev1.Pod{}, bound
	case corev1.SchemeGroupVersion.WithKind("Secret"):
		resource, obj, wanted.Secret = "secrets", &corev1.Secret{}, bound
	case corev1.SchemeGroupVersion.WithKind("Node"):
		resource, namespace, obj, wanted.Node = "nodes", "", &corev1.Node{}, bound
	default:
		return apierrors.NewBadRequest(fmt.Sprintf("cannot bind token to object of type %s", gvk))
	}
	found, err := a.tokens.Read(resource, namespace, ref.Name, obj)
	switch {
	case err != nil:
		return apierrors.NewInternalError(err)
	case !found:
		return apierrors.NewNotFound(schema.GroupResource{Resource: resource}, ref.Name)
	}
	bound.UID = obj.GetUID()
	if pod, ok := obj.(*corev1.Pod); ok {
		if pod.Spec.ServiceAccountName != wanted.Account.Name {
			return apierrors.NewBadRequest(
				fmt.Sprintf("cannot bind token for serviceaccount %q to pod running with serviceaccount %q", wanted.Account.Name, pod.Spec.ServiceAccountName),
			)
		}
		if wanted.Node, err = a.tokens.NodeOf(pod); err != nil {
			return apierrors.NewInternalError(err)
		}
	}
	if ref.UID != "" && ref.UID != bound.UID {
		return apierrors.NewConflict(schema.GroupResource{Resource: resource}, ref.Name,
			fmt.Errorf(
				"the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated",
				ref.UID,
			))
	}
	return nil
}
