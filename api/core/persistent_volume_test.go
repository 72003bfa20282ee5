package core

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// someClaim returns a claim as it is stored.
func someClaim(change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: "default", ResourceVersion: "1"}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	setClaimDefaults(claim)
	PrepareClaim(claim)
	for _, c := range change {
		c(claim)
	}
	return claim
}

func someVolume(change ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", ResourceVersion: "1"}}
	pv.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadOnlyMany}
	pv.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	pv.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/data"}
	setVolumeDefaults(pv)
	PrepareVolume(pv, someTime)
	for _, c := range change {
		c(pv)
	}
	return pv
}

func fieldsOf(errs field.ErrorList) string {
	var out []string
	for _, e := range errs {
		out = append(out, e.Field)
	}
	return strings.Join(out, " ")
}

func TestClaimsThatAreRefused(t *testing.T) {
	type claim = corev1.PersistentVolumeClaim
	for name, c := range map[string]struct {
		change func(*claim)
		want   string
	}{
		"none":                        {func(*claim) {}, ""},
		"no access mode":              {func(c *claim) { c.Spec.AccessModes = nil }, "spec.accessModes"},
		"a size of nothing":           {func(c *claim) { c.Spec.Resources.Requests[corev1.ResourceStorage] = resource.Quantity{} }, "spec.resources[storage]"},
		"no size":                     {func(c *claim) { c.Spec.Resources.Requests = nil }, "spec.resources[storage]"},
		"one pod and several":         {func(c *claim) { c.Spec.AccessModes = append(c.Spec.AccessModes, corev1.ReadWriteOncePod) }, "spec.accessModes"},
		"a copy of another volume":    {func(c *claim) { c.Spec.DataSource = &corev1.TypedLocalObjectReference{} }, "spec.dataSource"},
		"a copy, by the newer field":  {func(c *claim) { c.Spec.DataSourceRef = &corev1.TypedObjectReference{} }, "spec.dataSourceRef"},
		"attributes of a driver":      {func(c *claim) { c.Spec.VolumeAttributesClassName = ptr.To("gold") }, "spec.volumeAttributesClassName"},
		"an unknown mode of a volume": {func(c *claim) { c.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeMode("Tape")) }, "spec.volumeMode"},
	} {
		if got := fieldsOf(validateClaim(someClaim(c.change))); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestWhatMayChangeOfAClaim(t *testing.T) {
	type claim = corev1.PersistentVolumeClaim
	size := func(s string) func(*claim) {
		return func(c *claim) { c.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(s) }
	}
	bound := func(c *claim) {
		c.Status.Phase = corev1.ClaimBound
		c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		c.Spec.VolumeName, c.Spec.StorageClassName = "pv", ptr.To("local")
	}
	for name, c := range map[string]struct {
		old, change func(*claim)
		want        string
	}{
		"a bound one grows":                      {bound, size("2Gi"), ""},
		"one that waits does not":                {func(*claim) {}, size("2Gi"), "spec"},
		"none shrinks below what it has":         {bound, size("1Mi"), "spec.resources.requests.storage"},
		"it gets its class once":                 {func(*claim) {}, func(c *claim) { c.Spec.StorageClassName = ptr.To("local") }, ""},
		"it keeps its class":                     {bound, func(c *claim) { c.Spec.StorageClassName = ptr.To("other") }, "spec"},
		"it gets its volume once":                {func(*claim) {}, func(c *claim) { c.Spec.VolumeName = "pv" }, ""},
		"it keeps its volume":                    {bound, func(c *claim) { c.Spec.VolumeName = "pw" }, "spec"},
		"an expansion that fails is taken back":  {func(c *claim) { bound(c); size("9Gi")(c) }, size("2Gi"), ""},
		"access modes stay":                      {bound, func(c *claim) { c.Spec.AccessModes[0] = corev1.ReadWriteMany }, "spec"},
		"a status is not changed with the claim": {bound, func(c *claim) { c.Status = corev1.PersistentVolumeClaimStatus{} }, ""},
	} {
		old := someClaim(c.old)
		now := old.DeepCopy()
		c.change(now)
		prepareClaimUpdate(now, old)
		if got := fieldsOf(validateClaimUpdate(now, old)); got != c.want {
			t.Errorf("%s: refused is %q, want %q", name, got, c.want)
		}
	}
}

func TestVolumesThatAreRefused(t *testing.T) {
	type volume = corev1.PersistentVolume
	local := func(pv *volume) {
		pv.Spec.HostPath, pv.Spec.Local = nil, &corev1.LocalVolumeSource{Path: "/mnt/disk"}
	}
	for name, c := range map[string]struct {
		change func(*volume)
		want   string
	}{
		"none":                    {func(*volume) {}, ""},
		"no source":               {func(pv *volume) { pv.Spec.HostPath = nil }, "spec"},
		"two sources":             {func(pv *volume) { pv.Spec.NFS = &corev1.NFSVolumeSource{Server: "a", Path: "/"} }, "spec.nfs"},
		"a local one for no node": {local, "spec.nodeAffinity"},
		"a driver's, which is not named": {func(pv *volume) {
			pv.Spec.HostPath, pv.Spec.CSI = nil, &corev1.CSIPersistentVolumeSource{VolumeHandle: "fs-1"}
		}, "spec.csi.driver"},
		"a driver's, without a handle": {
			func(pv *volume) { pv.Spec.HostPath, pv.Spec.CSI = nil, &corev1.CSIPersistentVolumeSource{Driver: "d"} },
			"spec.csi.volumeHandle",
		},
		"a driver's and a directory":     {func(pv *volume) { pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "fs-1"} }, "spec.csi"},
		"one that is recycled":           {func(pv *volume) { pv.Spec.PersistentVolumeReclaimPolicy = "Recycle" }, "spec.persistentVolumeReclaimPolicy"},
		"options of a mount that is not": {func(pv *volume) { pv.Spec.MountOptions = []string{"ro"} }, "spec.mountOptions"},
		"one that leads out":             {func(pv *volume) { pv.Spec.HostPath.Path = "/a/../../b" }, "spec.hostPath.path"},
	} {
		if got := fieldsOf(validateVolume(someVolume(c.change))); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	ours := someVolume(local)
	ours.Annotations = map[string]string{"pv.kubernetes.io/provisioned-by": LocalProvisioner}
	if errs := validateVolume(ours); len(errs) > 0 {
		t.Errorf("one that jobd has made: %v", errs)
	}
	moved := ours.DeepCopy()
	moved.Spec.Local.Path = "/etc"
	if got := fieldsOf(validateVolumeUpdate(moved, ours)); got != "spec.persistentvolumesource" {
		t.Errorf("one that moves: %q", got)
	}
	stolen := ours.DeepCopy()
	stolen.Annotations = nil
	if got := fieldsOf(validateVolumeUpdate(stolen, ours)); !strings.Contains(got, "provisioned-by") {
		t.Errorf("one that loses its provisioner: %q", got)
	}
}

func TestTablesOfClaimsAndVolumes(t *testing.T) {
	claim := someClaim()
	if got := fmt.Sprint(claimTable().Cells(claim, time.Time{})); got != "[data Pending     <unset> <unknown> Filesystem]" {
		t.Error(got)
	}
	claim.Spec.VolumeName, claim.Spec.StorageClassName, claim.Status.Phase = "pv", ptr.To("local"), corev1.ClaimBound
	claim.Status.AccessModes = claim.Spec.AccessModes
	claim.Status.Capacity = claim.Spec.Resources.Requests
	if got := fmt.Sprint(claimTable().Cells(claim, time.Time{})); got != "[data Bound pv 1Gi RWO local <unset> <unknown> Filesystem]" {
		t.Error(got)
	}
	pv := someVolume(func(pv *corev1.PersistentVolume) {
		pv.Spec.ClaimRef, pv.Spec.StorageClassName = ptr.To(ClaimReference(claim)), "local"
	})
	if got := fmt.Sprint(volumeTable().Cells(pv, time.Time{})); got != "[pv 1Gi RWO,ROX Retain Pending default/data local <unset>  <unknown> Filesystem]" {
		t.Error(got)
	}
}

// Without its protection the device of a claim could be given to others while a pod still has it.
func TestTheProtectionOfAClaimStays(t *testing.T) {
	old := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Finalizers: []string{"example.com/mine", ClaimProtection}}}
	now := old.DeepCopy()
	now.Finalizers = nil
	prepareClaimUpdate(now, old)
	if !slices.Equal(now.Finalizers, []string{ClaimProtection}) {
		t.Errorf("finalizers %v", now.Finalizers)
	}
}
