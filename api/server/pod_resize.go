package server

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/registry/rest"
	resourcehelper "k8s.io/component-helpers/resource"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

// podResize serves pods/resize (KEP-1287): a write of a pod that sets nothing but the resources of its containers. It
// offers the methods of subresource but for GetResetFields, whose place GetResetFieldsFilter takes.
type podResize struct{ pods subresource }

var (
	_ rest.Patcher                   = podResize{}
	_ rest.ResetFieldsFilterStrategy = podResize{}
	_ rest.TableConvertor            = podResize{}
)

func (r podResize) New() runtime.Object { return r.pods.New() }
func (r podResize) Destroy()            {}

func (r podResize) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return r.pods.Get(ctx, name, options)
}

func (r podResize) Update(
	ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, force bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	return r.pods.Update(ctx, name, info, create, update, force, options)
}

func (r podResize) GetResetFieldsFilter() map[fieldpath.APIVersion]fieldpath.Filter {
	return map[fieldpath.APIVersion]fieldpath.Filter{"v1": core.ResizeFields()}
}

func (r podResize) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	return r.pods.ConvertToTable(ctx, obj, options)
}

// resizeAdmission refuses to resize a pod on a node beyond all that the node has: nothing that could end would make room
// for that.
type resizeAdmission struct{ store *store.Store }

var _ admission.ValidationInterface = resizeAdmission{}

func (resizeAdmission) Handles(op admission.Operation) bool { return op == admission.Update }

func (r resizeAdmission) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok || a.GetSubresource() != "resize" || pod.Spec.NodeName == "" {
		return nil
	}
	old, ok := a.GetOldObject().(*corev1.Pod)
	if !ok || old.Generation == pod.Generation {
		return nil
	}
	if old.Spec.Resources == nil && pod.Spec.Resources != nil {
		return admission.NewForbidden(a,
			errors.New("spec.resources cannot be added to a pod that is on a node: its containers have no common control group"))
	}
	node, found := &corev1.Node{}, false
	err := r.store.View(func(s *store.Snapshot) error {
		o, ok := s.Get(store.Key("nodes", "", pod.Spec.NodeName))
		found = ok
		if !ok {
			return nil
		}
		return scheme.Decode(o.Value, node)
	})
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if !found {
		return admission.NewForbidden(a, fmt.Errorf("node %q not found", pod.Spec.NodeName))
	}
	if err := withinAllocatable(pod, node.Status.Allocatable); err != nil {
		refusal := admission.NewForbidden(a, err)
		if status, ok := refusal.(*apierrors.StatusError); ok && status.ErrStatus.Details != nil {
			status.ErrStatus.Details.Causes = append(status.ErrStatus.Details.Causes,
				metav1.StatusCause{Type: "NodeCapacity"})
		}
		return refusal
	}
	return nil
}

// withinAllocatable compares the requests of a pod with the whole node. What the node does not count is not limited.
func withinAllocatable(pod *corev1.Pod, allocatable corev1.ResourceList) error {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	var short []string
	if cpu, ok := allocatable[corev1.ResourceCPU]; ok && requests.Cpu().Cmp(cpu) > 0 {
		short = append(short, fmt.Sprintf("cpu, requested: %d, allocatable: %d", requests.Cpu().MilliValue(), cpu.MilliValue()))
	}
	if memory, ok := allocatable[corev1.ResourceMemory]; ok && requests.Memory().Cmp(memory) > 0 {
		short = append(short, fmt.Sprintf("memory, requested: %d, allocatable: %d", requests.Memory().Value(), memory.Value()))
	}
	if len(short) == 0 {
		return nil
	}
	return fmt.Errorf("node didn't have enough allocatable resources: %s", strings.Join(short, "; "))
}
