package objects

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// DevicesAnnotation of a Node lists the resources that files of the Container Device Interface offer there, separated
// by commas. Any other extended resource in its status was written by a client.
const DevicesAnnotation = "jobd.dev/cdi-devices"

// Devices returns the resources of a Node that are devices of CDI files. ok is false if the Node does not say which.
func Devices(node *corev1.Node) (names []corev1.ResourceName, ok bool) {
	list, ok := node.Annotations[DevicesAnnotation]
	for name := range strings.SplitSeq(list, ",") {
		if name != "" {
			names = append(names, corev1.ResourceName(name))
		}
	}
	return names, ok
}

// MissesDevices reports whether a resource of a Node stands for devices which, as far as is known, are not only
// counted: pods that request it cannot do without them.
func MissesDevices(node *corev1.Node, name corev1.ResourceName) bool {
	devices, _ := Devices(node)
	amount, known := node.Status.Capacity[name]
	return slices.Contains(devices, name) || known && amount.IsZero()
}
