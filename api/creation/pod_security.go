package creation

import (
	"context"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/pod-security-admission/api"

	"github.com/jobd/jobd/api/podsecurity"
)

// CheckPodSecurity refuses pods that their namespace does not allow (Pod Security Admission, and a list of host paths), and
// warns about templates of such pods. A namespace that does not exist has no labels, and so the default level.
func CheckPodSecurity(ctx context.Context, r *Request, policy *podsecurity.Policy) (refusal, err error) {
	resource := r.GetResource().GroupResource()
	if policy == nil || !podsecurity.Concerns(resource) || resource == corev1.Resource("namespaces") {
		return nil, nil
	}
	ns, _, err := r.From.Namespace(r.GetNamespace())
	if err != nil {
		return nil, err
	}
	ns.Name = r.GetNamespace()
	return Reviewed(ctx, policy.Review(ctx, PodSecurityAttributes{r.Attributes}, ns)), nil
}

// Reviewed tells the client what an answer says, and returns the refusal, nil if it allows.
func Reviewed(ctx context.Context, answer *admissionv1.AdmissionResponse) error {
	for _, w := range answer.Warnings {
		warning.AddWarning(ctx, "", w)
	}
	for key, value := range answer.AuditAnnotations {
		audit.AddAuditAnnotation(ctx, api.AuditAnnotationPrefix+key, value)
	}
	return podsecurity.Refused(answer)
}

// PodSecurityAttributes adapts the attributes of a request to the interface of the library.
type PodSecurityAttributes struct{ admission.Attributes }

// GetOperation implements api.Attributes.
func (a PodSecurityAttributes) GetOperation() admissionv1.Operation {
	return admissionv1.Operation(a.Attributes.GetOperation())
}

// GetObject implements api.Attributes.
func (a PodSecurityAttributes) GetObject() (runtime.Object, error) {
	return a.Attributes.GetObject(), nil
}

// GetOldObject implements api.Attributes.
func (a PodSecurityAttributes) GetOldObject() (runtime.Object, error) {
	return a.Attributes.GetOldObject(), nil
}

// GetUserName implements api.Attributes.
func (a PodSecurityAttributes) GetUserName() string { return a.GetUserInfo().GetName() }
