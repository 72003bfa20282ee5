package quota

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	library "k8s.io/apiserver/pkg/quota/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"strings"
)

// ofClass is between the name of a class and that of a resource which a quota limits for that class alone.
const ofClass = ".storageclass.storage.k8s.io/"

var claimResources = []corev1.ResourceName{corev1.ResourcePersistentVolumeClaims, corev1.ResourceRequestsStorage}

func claimRules(count library.Evaluator) *rules {
	return &rules{
		Evaluator: count,
		matching: func(name corev1.ResourceName) bool {
			_, of, isOfClass := strings.Cut(string(name), ofClass)
			return slices.Contains(claimResources, name) || isOfClass && slices.Contains(claimResources, corev1.ResourceName(of))
		},
		usage: func(obj runtime.Object) corev1.ResourceList { return usedByClaim(obj.(*corev1.PersistentVolumeClaim)) },
		handles: func(a admission.Attributes) bool {
			return a.GetSubresource() == "" && (a.GetOperation() == admission.Create || a.GetOperation() == admission.Update)
		},
	}
}

func usedByClaim(pvc *corev1.PersistentVolumeClaim) corev1.ResourceList {
	used := corev1.ResourceList{corev1.ResourcePersistentVolumeClaims: one()}
	if amount, ok := pvc.Spec.Resources.Requests[corev1.ResourceStorage]; ok {
		// What a failed expansion has got already is more than the request says.
		if got, ok := pvc.Status.AllocatedResources[corev1.ResourceStorage]; ok && got.Cmp(amount) > 0 {
			amount = got
		}
		used[corev1.ResourceRequestsStorage] = wholeBytes(amount)
	}
	if class := storagehelpers.GetPersistentVolumeClaimClass(pvc); class != "" {
		for _, name := range claimResources {
			if amount, ok := used[name]; ok {
				used[corev1.ResourceName(class+ofClass)+name] = amount
			}
		}
	}
	return used
}

func wholeBytes(amount resource.Quantity) resource.Quantity {
	amount = amount.DeepCopy()
	amount.RoundUp(0)
	return amount
}
