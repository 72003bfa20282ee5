// Package podsecurity decides which pods a namespace takes by Kubernetes' Pod Security Standards: the levels
// privileged, baseline and restricted, which a namespace asks for with its labels pod-security.kubernetes.io/*.
//
// The decisions are those of k8s.io/pod-security-admission, except that only the level privileged allows adding the capability
// MKNOD. What comes in is the configuration, and for each question the namespace and the object; what goes out is whether the
// object is allowed, warnings for who writes it and annotations for the audit log. Evaluations are counted in the metrics
// pod_security_*; nothing else is touched. A Policy may be used by any goroutine.
package podsecurity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-base/metrics/legacyregistry"
	baseversion "k8s.io/component-base/version"
	"k8s.io/pod-security-admission/admission"
	admissionapi "k8s.io/pod-security-admission/admission/api"
	configv1 "k8s.io/pod-security-admission/admission/api/v1"
	"k8s.io/pod-security-admission/admission/api/validation"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/metrics"
	"k8s.io/pod-security-admission/policy"

	"github.com/jobd/jobd/api/hostpath"
	"github.com/jobd/jobd/api/podspec"
)

// Configuration is the PodSecurityConfiguration of a cluster's API server: what holds in namespaces that have no label,
// and who is exempt.
type Configuration = configv1.PodSecurityConfiguration

// Policy decides. It is made by New.
type Policy struct{ library admission.Admission }

// New checks the configuration, of which what is not set is the level privileged, of the latest version. Errors begin
// with the path of the field.
func New(c Configuration) (*Policy, error) {
	if c.Kind != "" && c.Kind != "PodSecurityConfiguration" {
		return nil, field.Invalid(field.NewPath("kind"), c.Kind, "must be PodSecurityConfiguration")
	}
	c = *c.DeepCopy()
	configv1.SetDefaults_PodSecurityDefaults(&c.Defaults)
	internal := &admissionapi.PodSecurityConfiguration{}
	if err := configv1.Convert_v1_PodSecurityConfiguration_To_api_PodSecurityConfiguration(&c, internal, nil); err != nil {
		return nil, err
	}
	if errs := validation.ValidatePodSecurityConfiguration(internal); len(errs) > 0 {
		return nil, errs[0]
	}
	evaluator, err := policy.NewEvaluator(append(policy.DefaultChecks(), checkDevices(), checkHostImage()), nil)
	if err != nil {
		return nil, err
	}
	p := &Policy{admission.Admission{
		Configuration: internal, Evaluator: evaluator, Metrics: recorder(),
		PodSpecExtractor: admission.DefaultPodSpecExtractor{},
	}}
	return p, p.library.CompleteConfiguration()
}

// recorder counts evaluations in the registry that all of the process shares.
var recorder = sync.OnceValue(func() *metrics.PrometheusRecorder {
	version, err := api.ParseVersion("v" + baseversion.DefaultKubeBinaryVersion)
	if err != nil {
		panic(fmt.Sprintf("the version of the Kubernetes libraries: %v", err))
	}
	r := metrics.NewPrometheusRecorder(version)
	r.MustRegister(legacyregistry.MustRegister)
	return r
})

// Concerns reports whether there is anything to decide about objects of a resource.
func Concerns(r schema.GroupResource) bool {
	return r == corev1.Resource("namespaces") || admission.DefaultPodSpecExtractor{}.HasPodSpec(r)
}

// Review decides about a pod, or warns about an object with a template of pods, in the namespace ns. Host paths that the
// namespace lists are no violation; if it lists any, all others are forbidden, even for users who are exempt.
func (p *Policy) Review(ctx context.Context, a api.Attributes, ns *corev1.Namespace) *admissionv1.AdmissionResponse {
	paths, _ := hostpath.Of(ns) // a list that cannot be read allows nothing
	forbidden, excused := review(paths, a)
	if shows, without := reviewHostImage(ns, paths, excused); shows != nil && forbidden == nil {
		forbidden = shows
	} else {
		excused = without
	}
	isPod := a.GetResource().GroupResource() == corev1.Resource("pods")
	if forbidden != nil && isPod && (a.GetOperation() != admissionv1.Update || runsOther(a)) {
		refusal := apierrors.NewForbidden(a.GetResource().GroupResource(), a.GetName(), forbidden)
		return &admissionv1.AdmissionResponse{Result: &refusal.ErrStatus}
	}
	answer := p.with(ns, nil).Validate(ctx, excused)
	if forbidden != nil && !isPod && a.GetSubresource() == "" {
		answer = answer.DeepCopy() // the library shares some
		answer.Warnings = append(answer.Warnings, "pods will be refused: "+forbidden.Error())
	}
	return answer
}

// runsOther reports whether a changed pod is to run something that it did not: a container was added to it, or has
// another image. Other changes do not touch its volumes, nor what is done with them.
func runsOther(a api.Attributes) bool {
	obj, err := a.GetObject()
	pod, ok := obj.(*corev1.Pod)
	old, errOld := a.GetOldObject()
	was, okOld := old.(*corev1.Pod)
	if err != nil || errOld != nil || !ok || !okOld {
		return true
	}
	images := map[string]string{}
	for c := range podspec.Containers(&was.Spec) {
		images[c.Name] = c.Image
	}
	for c := range podspec.Containers(&pod.Spec) {
		if images[c.Name] != c.Image {
			return true
		}
	}
	return false
}

// maxErrors bounds how many errors are joined, which takes quadratic time.
const maxErrors = 100

// review returns what in an object the list of host paths forbids, and the object's attributes without the volumes that
// it allows.
func review(paths *hostpath.List, a api.Attributes) (forbidden error, excused api.Attributes) {
	obj, err := a.GetObject()
	if err != nil || paths == nil {
		return nil, a
	}
	spec, at := podspec.Of(obj)
	if spec == nil {
		return nil, a
	}
	errs := paths.Check(spec, at)
	forbidden = errs[:min(len(errs), maxErrors)].ToAggregate()
	if without := paths.Excused(spec); without != spec {
		obj = obj.DeepCopyObject()
		spec, _ = podspec.Of(obj)
		*spec = *without
		a = replaced{a, obj}
	}
	return forbidden, a
}

// replaced are the attributes of a request with another object.
type replaced struct {
	api.Attributes
	object runtime.Object
}

func (r replaced) GetObject() (runtime.Object, error) { return r.object, nil }

// Lister lists the pods of a namespace, which are the caller's own. It should return an error when ctx ends.
type Lister func(ctx context.Context, namespace string) ([]*corev1.Pod, error)

// ReviewNamespace decides about a write of a namespace, whose labels have to make sense. Warnings name the pods in it
// that a new level would not let in.
func (p *Policy) ReviewNamespace(ctx context.Context, a api.Attributes, pods Lister) *admissionv1.AdmissionResponse {
	obj, _ := a.GetObject()
	ns, _ := obj.(*corev1.Namespace)
	return p.with(nil, func(ctx context.Context, name string) ([]*corev1.Pod, error) {
		list, err := pods(ctx, name)
		paths, _ := hostpath.Of(ns)
		for _, pod := range list {
			pod.Spec = *excuseHostImage(ns, paths.Excused(&pod.Spec))
		}
		return list, err
	}).ValidateNamespace(ctx, a)
}

// Refusal returns why a namespace does not take a pod that a user creates (admissionv1.Create) or gets into
// (admissionv1.Connect), nil if it does. A nil Policy takes any.
func (p *Policy) Refusal(
	ctx context.Context, ns *corev1.Namespace, pod *corev1.Pod, operation admissionv1.Operation, user string,
) error {
	if p == nil {
		return nil
	}
	return Refused(p.Review(ctx, &api.AttributesRecord{
		Name: pod.Name, Namespace: ns.Name, Kind: corev1.SchemeGroupVersion.WithKind("Pod"),
		Resource: corev1.SchemeGroupVersion.WithResource("pods"), Operation: operation, Object: pod, Username: user,
	}, ns))
}

// Refused returns the error that an answer means for the client, nil when it allows.
func Refused(r *admissionv1.AdmissionResponse) error {
	switch {
	case r.Allowed:
		return nil
	case r.Result == nil:
		return apierrors.NewInternalError(errors.New("not allowed by PodSecurity, without a reason"))
	}
	return &apierrors.StatusError{ErrStatus: *r.Result}
}

// JobController is who creates the pods of Jobs in a cluster, and so here, by which exemptions name it.
const JobController = "system:serviceaccount:kube-system:job-controller"

// Limits reports whether a namespace takes from those who are not exempt only pods that cannot take over the host.
func (p *Policy) Limits(ns *corev1.Namespace) bool {
	exempt := p.library.Configuration.Exemptions
	level, _ := p.library.PolicyToEvaluate(ns.Labels) // one that cannot be read counts as restricted
	return level.Enforce.Level != api.LevelPrivileged && !slices.Contains(exempt.Namespaces, ns.Name) &&
		!slices.Contains(exempt.Usernames, JobController)
}

// with is the library's admission where a namespace and its pods are at hand, which it looks up by name.
func (p *Policy) with(ns *corev1.Namespace, pods Lister) *admission.Admission {
	a := p.library
	a.NamespaceGetter, a.PodLister = atHand{ns}, pods
	return &a
}

type atHand struct{ namespace *corev1.Namespace }

func (h atHand) GetNamespace(_ context.Context, name string) (*corev1.Namespace, error) {
	if h.namespace == nil || h.namespace.Name != name {
		return nil, apierrors.NewNotFound(corev1.Resource("namespaces"), name)
	}
	return h.namespace, nil
}

// ListPods implements the library's PodLister.
func (l Lister) ListPods(ctx context.Context, namespace string) ([]*corev1.Pod, error) {
	return l(ctx, namespace)
}
