// Package door lets in what the control loop creates in namespaces: the pods of Jobs and their Workloads and PodGroups, the
// claims of pods, the Jobs of CronJobs, and the Jobs, Services and claims of JobSets. They meet the same rules as what clients create (api/creation).
//
// An object as its owner wants it comes in. It is filled in and prepared, and counts for the ResourceQuotas of its namespace in
// the loop's pass; or a refusal goes out. The caller writes it.
package door

import (
	"context"
	"errors"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/creation"
	"github.com/jobd/jobd/api/podsecurity"
	"github.com/jobd/jobd/api/quota"
	"github.com/jobd/jobd/api/scheduling"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// Keeper opens doors.
type Keeper struct {
	rules []creation.Rule
	full  func(namespace string) error
}

// New makes one. A nil policy lets in any pods, and hostRoot those of root with commands of the host. full returns why a namespace takes no
// more objects, since the disk has no room for them; nil: nobody knows.
func New(policy *podsecurity.Policy, hostRoot bool, full func(namespace string) error) *Keeper {
	return &Keeper{creation.Rules(policy, hostRoot), full}
}

// Kind is what is to be created.
type Kind struct {
	resource, user string // who creates it in a cluster
}

// The kinds that the loop creates.
var (
	Pods      = Kind{objects.Pods, podsecurity.JobController}
	Workloads = Kind{objects.Workloads, podsecurity.JobController}
	PodGroups = Kind{objects.PodGroups, podsecurity.JobController}
	Claims    = Kind{objects.Claims, "system:serviceaccount:kube-system:ephemeral-volume-controller"}
	Jobs      = Kind{objects.Jobs, "system:serviceaccount:kube-system:cronjob-controller"}

	JobsOfSets   = Kind{objects.Jobs, jobSetController}
	Services     = Kind{objects.Services, jobSetController}
	ClaimsOfSets = Kind{objects.Claims, jobSetController}
)

const jobSetController = "system:serviceaccount:jobset-system:jobset-controller-manager"

// Door is that to a namespace, for objects of one kind, in a pass.
type Door struct {
	rules []creation.Rule
	pass  *loop.Pass
	kind  Kind
	from  *source
}

// Open opens the door to a namespace, or returns why nothing can be created there.
func (k *Keeper) Open(p *loop.Pass, namespace string, kind Kind) (d *Door, refusal, err error) {
	d = &Door{rules: k.rules, pass: p, kind: kind, from: &source{pass: p}}
	nothing := admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, namespace, "", kind.version(""), "",
		admission.Create, nil, false, nil)
	refusal, err = creation.Check(context.Background(), creation.First(), &creation.Request{Attributes: nothing, From: d.from})
	if refusal == nil && err == nil && k.full != nil {
		refusal = k.full(namespace)
	}
	return d, refusal, err
}

// Admit lets an object in, or returns why not. It is not to be used then.
func (d *Door) Admit(obj objects.Object) (refusal, err error) {
	setDefaults(obj)
	kinds, _, err := scheme.Scheme.ObjectKinds(obj)
	if err != nil {
		return nil, err
	}
	r := &creation.Request{
		Attributes: admission.NewAttributesRecord(obj, nil, kinds[0], obj.GetNamespace(), obj.GetName(),
			d.kind.version(kinds[0].Version), "", admission.Create, nil, false, &user.DefaultInfo{Name: d.kind.user}),
		From: d.from, Called: obj.GetGenerateName(),
	}
	if refusal, err := creation.Fill(d.rules, r); refusal != nil || err != nil {
		return refusal, err
	}
	d.prepare(obj)
	if errs, err := d.validate(obj); err != nil {
		return nil, err
	} else if len(errs) > 0 {
		return apierrors.NewInvalid(kinds[0].GroupKind(), obj.GetName(), errs), nil
	}
	if refusal, err = creation.Check(context.Background(), d.rules, r); r.OverQuota {
		refusal = overQuota{refusal}
	}
	return refusal, err
}

// Together returns why ResourceQuotas do not let in so many objects like one; nil if they do. None is let in, and the one that is given
// is not to be used.
func (d *Door) Together(obj objects.Object, times int) (refusal, err error) {
	quotas, err := d.pass.Quotas(obj.GetNamespace())
	if err != nil || len(*quotas) == 0 || times < 2 {
		return nil, err
	}
	before := *quotas
	defer func() { *quotas = before }()
	if refusal, err := d.Admit(obj); refusal != nil || err != nil {
		return refusal, err
	}
	if over := quota.Times(before, *quotas, times); over != nil {
		resource := schema.ParseGroupResource(d.kind.resource)
		return overQuota{apierrors.NewForbidden(resource, obj.GetName(), fmt.Errorf("%d start together: %w", times, over))}, nil
	}
	return nil, nil
}

// Like is so many objects like one.
type Like struct {
	Object objects.Object
	Times  int
}

// AllTogether returns why ResourceQuotas do not let in all of some objects; nil if they do. None is let in, and those that are given are
// not to be used.
func (d *Door) AllTogether(all []Like) (refusal, err error) {
	if len(all) == 0 {
		return nil, nil
	}
	quotas, err := d.pass.Quotas(all[0].Object.GetNamespace())
	if err != nil || len(*quotas) == 0 {
		return nil, err
	}
	before, together := *quotas, 0
	defer func() { *quotas = before }()
	for _, of := range all {
		together += of.Times
	}
	for _, of := range all {
		was := *quotas
		if refusal, err := d.Admit(of.Object); refusal != nil || err != nil {
			return refusal, err
		}
		if over := quota.Times(was, *quotas, of.Times); over != nil {
			resource := schema.ParseGroupResource(d.kind.resource)
			return overQuota{apierrors.NewForbidden(resource, of.Object.GetName(), fmt.Errorf("%d start together: %w", together, over))}, nil
		}
		*quotas = quota.Repeated(was, *quotas, of.Times)
	}
	return nil, nil
}

// overQuota is a refusal by ResourceQuotas.
type overQuota struct{ error }

// OverQuota reports whether ResourceQuotas have refused an object, which may allow it later.
func OverQuota(refusal error) bool { return errors.As(refusal, &overQuota{}) }

func (k Kind) version(version string) schema.GroupVersionResource {
	return schema.ParseGroupResource(k.resource).WithVersion(version)
}

func setDefaults(obj objects.Object) {
	switch obj := obj.(type) {
	case *corev1.Pod:
		core.SetPodDefaults(obj)
	case *batchv1.Job:
		batch.SetJobDefaults(obj)
	case *schedulingv1beta1.PodGroup:
		scheduling.SetPodGroupDefaults(obj)
	default:
		scheme.Scheme.Default(obj)
	}
}

func (d *Door) prepare(obj objects.Object) {
	switch obj := obj.(type) {
	case *corev1.Pod:
		core.PreparePod(obj, d.pass.Now)
	case *corev1.PersistentVolumeClaim:
		core.PrepareClaim(obj)
	case *batchv1.Job:
		batch.PrepareJob(obj)
	case *corev1.Service: // without an address, of which there is one kind
		core.NormalizeClusterIPs(obj, nil)
	case *schedulingv1beta1.Workload:
		obj.Generation = 1
	case *schedulingv1beta1.PodGroup:
		scheduling.PreparePodGroup(obj)
	}
}

// validate validates what can be wrong: templates are valid, and so is a pod of one unless LimitRanges have given it something.
func (d *Door) validate(obj objects.Object) (field.ErrorList, error) {
	switch obj := obj.(type) {
	case *corev1.Pod:
		if ranges, err := d.from.LimitRanges(obj.Namespace); err != nil || len(ranges) == 0 {
			return nil, err
		}
		return core.ValidatePod(obj), nil
	case *batchv1.Job:
		return batch.ValidateJob(obj), nil
	}
	return nil, nil
}

// source is what the pass sees of a namespace, each read once.
type source struct {
	pass   *loop.Pass
	ns     *corev1.Namespace
	found  bool
	ranges *[]*corev1.LimitRange
	refs   *storage.PodReferences
}

// Namespace implements creation.Source.
func (s *source) Namespace(name string) (*corev1.Namespace, bool, error) {
	if s.ns == nil {
		ns := &corev1.Namespace{}
		found, err := objects.Read(s.pass, store.Key(objects.Namespaces, "", name), ns)
		if err != nil {
			return nil, false, err
		}
		s.ns, s.found = ns, found
	}
	return s.ns, s.found, nil
}

// LimitRanges implements creation.Source.
func (s *source) LimitRanges(namespace string) ([]*corev1.LimitRange, error) {
	if s.ranges == nil {
		ranges, err := storage.LimitRanges(s.pass.Snapshot(), namespace)
		if err != nil {
			return nil, err
		}
		s.ranges = &ranges
	}
	return *s.ranges, nil
}

// References implements creation.Source.
func (s *source) References(fn func(*storage.PodReferences)) error {
	if s.refs == nil {
		refs, err := storage.NewPodReferences(s.pass.Snapshot())
		if err != nil {
			return err
		}
		s.refs = refs
	}
	fn(s.refs)
	return nil
}

// Quotas implements creation.Source.
func (s *source) Quotas(namespace string) (*[]corev1.ResourceQuota, error) {
	return s.pass.Quotas(namespace)
}
