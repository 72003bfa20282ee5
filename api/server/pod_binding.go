package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	apistorage "k8s.io/apiserver/pkg/storage"
	storageerrors "k8s.io/apiserver/pkg/storage/errors"
	"k8s.io/apiserver/pkg/util/dryrun"

	"github.com/jobd/jobd/api/core"
)

var pods = schema.GroupResource{Resource: "pods"}

// podBinding serves POST .../pods/NAME/binding, by which a scheduler puts a waiting pod on a node. The pod is treated as
// one whose manifest names the node (PodSpec.NodeName): jobd's node takes it, without looking for room, or refuses it.
type podBinding struct{ pods *registry.Store }

var (
	_ rest.NamedCreater                   = podBinding{}
	_ rest.SubresourceObjectMetaPreserver = podBinding{}
	_ rest.Creater                        = bindings{}
	_ rest.Scoper                         = bindings{}
	_ rest.SingularNameProvider           = bindings{}
)

func (podBinding) New() runtime.Object { return &corev1.Binding{} }
func (podBinding) Destroy()            {}

// PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate keeps the UID and the resource version of the Binding, which
// are preconditions.
func (podBinding) PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate() bool { return true }

func (b podBinding) Create(
	ctx context.Context, name string, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions,
) (runtime.Object, error) {
	binding := obj.(*corev1.Binding)
	if name != binding.Name {
		return nil, apierrors.NewBadRequest("name in URL does not match name in Binding object")
	}
	if errs := core.ValidateBinding(binding); len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "Binding"}, name, errs)
	}
	if validate != nil {
		if err := validate(ctx, binding.DeepCopy()); err != nil {
			return nil, err
		}
	}
	key, err := b.pods.KeyFunc(ctx, name)
	if err != nil {
		return nil, err
	}
	var preconditions apistorage.Preconditions
	if binding.UID != "" {
		preconditions.UID = &binding.UID
	}
	if binding.ResourceVersion != "" {
		preconditions.ResourceVersion = &binding.ResourceVersion
	}
	err = b.pods.Storage.GuaranteedUpdate(ctx, key, &corev1.Pod{}, false, &preconditions, apistorage.SimpleUpdate(
		func(current runtime.Object) (runtime.Object, error) {
			pod := current.(*corev1.Pod)
			return pod, assign(pod, binding)
		}), dryrun.IsDryRun(options.DryRun), nil)
	if err != nil {
		err = storageerrors.InterpretUpdateError(storageerrors.InterpretGetError(err, pods, name), pods, name)
		if _, ok := errors.AsType[*apierrors.StatusError](err); !ok {
			err = apierrors.NewConflict(schema.GroupResource{Resource: "pods/binding"}, name, err)
		}
		return nil, err
	}
	return &metav1.Status{Status: metav1.StatusSuccess, Code: 201}, nil
}

// assign puts a pod on the node of a binding.
func assign(pod *corev1.Pod, binding *corev1.Binding) error {
	switch {
	case pod.DeletionTimestamp != nil:
		return fmt.Errorf("pod %s is being deleted, cannot be assigned to a host", pod.Name)
	case pod.Spec.NodeName != "":
		return fmt.Errorf("pod %s is already assigned to node %q", pod.Name, pod.Spec.NodeName)
	case len(pod.Spec.SchedulingGates) > 0:
		return fmt.Errorf("pod %s has non-empty .spec.schedulingGates", pod.Name)
	}
	for _, of := range []struct {
		pod     *map[string]string
		binding map[string]string
	}{{&pod.Annotations, binding.Annotations}, {&pod.Labels, binding.Labels}} {
		if *of.pod == nil && len(of.binding) > 0 {
			*of.pod = map[string]string{}
		}
		maps.Copy(*of.pod, of.binding)
	}
	core.NameNode(pod, binding.Target.Name, time.Now())
	return nil
}

// bindings serves POST .../bindings, the older form of pods/NAME/binding.
type bindings struct{ of podBinding }

func (b bindings) New() runtime.Object   { return b.of.New() }
func (bindings) Destroy()                {}
func (bindings) NamespaceScoped() bool   { return true }
func (bindings) GetSingularName() string { return "binding" }

func (b bindings) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	return b.of.Create(ctx, obj.(*corev1.Binding).Name, obj, validate, options)
}
