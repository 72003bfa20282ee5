package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"
	volumehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/api/storageclass"
	"github.com/jobd/jobd/store"
)

// claimClass gives new claims that name no storage class the default one, and warns of a class that does not exist.
type claimClass struct {
	store *store.Store
	// standIn says that claims of an unknown class get volumes of the default class.
	standIn bool
}

var (
	_ admission.MutationInterface   = claimClass{}
	_ admission.ValidationInterface = claimClass{}
)

func (claimClass) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

func (c claimClass) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
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
	case c.standIn && chosen != nil:
		warning.AddWarning(ctx, "", fmt.Sprintf("spec.storageClassName: there is no storage class %q; unless a "+
			"PersistentVolume of that class is there, the claim gets a volume of the default class %q", name, chosen.Name))
	default:
		warning.AddWarning(ctx, "", fmt.Sprintf("spec.storageClassName: there is no storage class %q; the claim waits "+
			"for that class or for a PersistentVolume of it", name))
	}
	return nil
}

// Validate refuses to expand a claim whose class does not allow that.
func (c claimClass) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
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
	} else if c.standIn && name != "" {
		class = storageclass.Default(classes)
	}
	if class == nil || class.AllowVolumeExpansion == nil || !*class.AllowVolumeExpansion {
		return admission.NewForbidden(a, errors.New("only dynamically provisioned pvc can be resized and the storageclass "+
			"that provisions the pvc must support resize"))
	}
	return nil
}

func (c claimClass) classes() (classes []*storagev1.StorageClass, err error) {
	if err := c.store.View(func(s *store.Snapshot) (err error) {
		classes, err = storage.StorageClasses(s)
		return err
	}); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return classes, nil
}

// localClassMade marks a database in which the default class has been created before. If an administrator then deletes
// the class, it is not created again.
const localClassMade = "marks.jobd.dev/local-storage-class"

// createStorageClass creates the default class at the first start.
func (s *Server) createStorageClass() error {
	err := s.config.Store.Update(context.Background(), func(tx *store.Tx) error {
		if _, ok := tx.Get(localClassMade); ok {
			return nil
		}
		tx.Put(store.Object{Key: localClassMade})
		class := storageclass.Local()
		key := store.Key("storageclasses."+storagev1.GroupName, "", class.Name)
		if _, ok := tx.Get(key); ok {
			return nil
		}
		class.UID, class.CreationTimestamp = uuid.NewUUID(), metav1.NewTime(time.Now().Truncate(time.Second))
		value, err := scheme.Encode(class)
		if err != nil {
			return err
		}
		tx.Put(store.Object{Key: key, UID: string(class.UID), Value: value})
		return nil
	})
	if err != nil {
		return fmt.Errorf("create the default storage class: %w", err)
	}
	return nil
}
