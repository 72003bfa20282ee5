package requests

import (
	"math"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Words names what is requested: 2 CPUs, 4Gi of memory, 1 nvidia.com/gpu.
func Words(name corev1.ResourceName, n int64) string {
	switch {
	case name == corev1.ResourceCPU && n == 1000:
		return "1 CPU"
	case name == corev1.ResourceCPU:
		return strconv.FormatFloat(float64(n)/1000, 'f', -1, 64) + " CPUs"
	case binary(name):
		return Human(name, n) + " of " + string(name)
	}
	return Human(name, n) + " " + string(name)
}

// Human formats an amount for people: of bytes at most one decimal place, in the largest unit.
func Human(name corev1.ResourceName, n int64) string {
	if !binary(name) {
		return Format(name, n)
	}
	for i, unit := range []string{"Ti", "Gi", "Mi", "Ki"} {
		if size := int64(1) << (10 * (4 - i)); n >= size {
			return strconv.FormatFloat(math.Floor(float64(n)/float64(size)*10)/10, 'f', -1, 64) + unit
		}
	}
	return Format(name, n)
}

// binary reports whether a resource is counted in bytes.
func binary(name corev1.ResourceName) bool {
	return name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// Format formats an amount of a resource as the API does.
func Format(name corev1.ResourceName, n int64) string {
	switch {
	case name == corev1.ResourceCPU:
		return resource.NewMilliQuantity(n, resource.DecimalSI).String()
	case binary(name):
		return resource.NewQuantity(n, resource.BinarySI).String()
	}
	return resource.NewQuantity(n, resource.DecimalSI).String()
}
