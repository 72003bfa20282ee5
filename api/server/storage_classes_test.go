package server

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func newClaim(name string, class *string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: apiresource.MustParse("1Gi")}
	c.Spec.StorageClassName = class
	return c
}

func TestClaimsGetTheDefaultClass(t *testing.T) {
	ts := startServer(t)
	c := ts.client(t)
	claims := c.CoreV1().PersistentVolumeClaims("default")
	for name, want := range map[string]struct{ asked, gets *string }{
		"without":  {nil, ptr.To("local")},
		"with":     {ptr.To("other"), ptr.To("other")},
		"for-none": {ptr.To(""), ptr.To("")},
	} {
		got, err := claims.Create(t.Context(), newClaim(name, want.asked), metav1.CreateOptions{})
		if err != nil || *got.Spec.StorageClassName != *want.gets || len(got.Finalizers) != 1 || got.Status.Phase != corev1.ClaimPending {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	classes := c.StorageV1().StorageClasses()
	if err := classes.Delete(t.Context(), "local", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got, err := claims.Create(t.Context(), newClaim("late", nil), metav1.CreateOptions{}); err != nil || got.Spec.StorageClassName != nil {
		t.Errorf("without a default class: %+v, %v", got, err)
	}
	if err := ts.Server.createStorageClass(); err != nil {
		t.Fatal(err)
	}
	if _, err := classes.Get(t.Context(), "local", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a class that was deleted comes back: %v", err)
	}
}

func TestOnlyClaimsOfSomeClassesGrow(t *testing.T) {
	ts := startServer(t)
	c := ts.client(t)
	for name, grows := range map[string]bool{"elastic": true, "rigid": false} {
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "jobd.dev/local", AllowVolumeExpansion: &grows}
		if _, err := c.StorageV1().StorageClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		claims := c.CoreV1().PersistentVolumeClaims("default")
		claim, err := claims.Create(t.Context(), newClaim(name, &name), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		claim.Status.Phase = corev1.ClaimBound
		claim.Status.Capacity = claim.Spec.Resources.Requests
		if _, err := claims.UpdateStatus(t.Context(), claim, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		grow := []byte(`{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`)
		_, err = claims.Patch(t.Context(), name, types.MergePatchType, grow, metav1.PatchOptions{})
		if grows && err != nil || !grows && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "must support resize")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
