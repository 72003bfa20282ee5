package quota

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	library "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/utils/ptr"
)

var serviceResources = []corev1.ResourceName{
	corev1.ResourceServices, corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers,
}

func serviceRules(count library.Evaluator) *rules {
	return &rules{
		Evaluator: count,
		matching:  func(name corev1.ResourceName) bool { return slices.Contains(serviceResources, name) },
		usage:     func(obj runtime.Object) corev1.ResourceList { return usedByService(obj.(*corev1.Service)) },
		handles: func(a admission.Attributes) bool {
			return a.GetSubresource() == "" && (a.GetOperation() == admission.Create || a.GetOperation() == admission.Update)
		},
	}
}

func usedByService(s *corev1.Service) corev1.ResourceList {
	var nodePorts, balancers int64
	switch s.Spec.Type {
	case corev1.ServiceTypeNodePort:
		nodePorts = int64(len(s.Spec.Ports))
	case corev1.ServiceTypeLoadBalancer:
		balancers = 1
		if ptr.Deref(s.Spec.AllocateLoadBalancerNodePorts, true) {
			nodePorts = int64(len(s.Spec.Ports))
		}
	}
	return corev1.ResourceList{
		corev1.ResourceServices:              one(),
		corev1.ResourceServicesNodePorts:     *resource.NewQuantity(nodePorts, resource.DecimalSI),
		corev1.ResourceServicesLoadBalancers: *resource.NewQuantity(balancers, resource.DecimalSI),
	}
}
