package admit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"
	volumehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/api/storageclass"
	"github.com/jobd/jobd/store"
)

// ClaimClass gives new claims that name no storage class the default one, and warns of a class that does not exist.
type ClaimClass struct {
	Store *store.Store
	// StandIn says that claims of an unknown class get volumes of the default class.
	StandIn bool
}

var (
	_ admission.MutationInterface   = ClaimClass{}
	_ admission.ValidationInterface = ClaimClass{}
)

func (ClaimClass) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

func (c ClaimClass) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	claim, ok := a.GetObject().(*corev1.PersistentVolumeClaim)
	if !ok || a.GetSubresource() != "" || a.GetOperation() != admission.Create {
		return nil
	}
	classes, err := c.classes()
	if err != nil {
		return err
	}
	chosen := storageclass.Default(classes)
	if !volumehelpers.PersistentVolumeClaimHasClass(claim) {
		if chosen != nil {
			claim.Spec.StorageClassName = &chosen.Name
		}
		return nil
	}
	name := volumehelpers.GetPersistentVolumeClaimClass(claim)
	known := slices.ContainsFunc(classes, func(c *storagev1.StorageClass) bool { return c.Name == name })
	switch {
	case name == "" || known || claim.Spec.VolumeName != "":
	case c.StandIn && chosen != nil:
		warning.AddWarning(ctx, "", fmt.Sprintf("spec.storageClassName: there is no storage class %q; unless a "+
			"PersistentVolume of that class is there, the claim gets a volume of the default class %q", name, chosen.Name))
	default:
		warning.AddWarning(ctx, "", fmt.Sprintf("spec.storageClassName: there is no storage class %q; the claim waits "+
			"for that class or for a PersistentVolume of it", name))
	}
	return nil
}

// Validate refuses to expand a claim whose class does not allow that.
func (c ClaimClass) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	claim, ok := a.GetObject().(*corev1.PersistentVolumeClaim)
	old, had := a.GetOldObject().(*corev1.PersistentVolumeClaim)
	if !ok || !had || a.GetSubresource() != "" {
		return nil
	}
	size, was := claim.Spec.Resources.Requests[corev1.ResourceStorage], old.Spec.Resources.Requests[corev1.ResourceStorage]
	if size.Cmp(was) <= 0 || old.Status.Phase != corev1.ClaimBound {
		return nil // validation refuses what else does not change
	}
	classes, err := c.classes()
	if err != nil {
		return err
	}
	name := volumehelpers.GetPersistentVolumeClaimClass(old)
	i := slices.IndexFunc(classes, func(c *storagev1.StorageClass) bool { return c.Name == name })
	var class *storagev1.StorageClass
	if i >= 0 {
		class = classes[i]
	} else if c.StandIn && name != "" {
		class = storageclass.Default(classes)
	}
	if class == nil || class.AllowVolumeExpansion == nil || !*class.AllowVolumeExpansion {
		return admission.NewForbidden(a, errors.New("only dynamically provisioned pvc can be resized and the storageclass "+
			"that provisions the pvc must support resize"))
	}
	return nil
}

func (c ClaimClass) classes() (classes []*storagev1.StorageClass, err error) {
	if err := c.Store.View(func(s *store.Snapshot) (err error) {
		classes, err = storage.StorageClasses(s)
		return err
	}); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return classes, nil
}
