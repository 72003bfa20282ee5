// Package usage is what containers and the machine use now, as the resource metrics API (metrics.k8s.io) has it:
// measurements go in, and its objects come out. Nothing is measured or stored here.
package usage

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// Measurement is what a node and the containers that run there use at one time.
type Measurement struct {
	At   time.Time
	Node string // its name
	// Machine is what everything on the node uses together.
	Machine Use
	Pods    []Pod
}

// Pod is what the running containers of a pod use.
type Pod struct {
	Namespace, Name string
	UID             types.UID
	Containers      []Container
}

// Container is what a running container uses.
type Container struct {
	Name string
	Use  Use
}

// Use is a use of processors and memory.
type Use struct {
	// CPU is the processor time used per second of the Window, which ends at the time of the measurement: one second is
	// one processor.
	CPU    time.Duration
	Window time.Duration
	// Memory is the working set, in bytes: without what the kernel can take back at once.
	Memory int64
}

func (u Use) list() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewScaledQuantity(int64(u.CPU), resource.Nano),
		corev1.ResourceMemory: *resource.NewQuantity(u.Memory, resource.BinarySI),
	}
}

// PodMetrics returns the object of a pod, with the pod's labels.
func (m *Measurement) PodMetrics(p Pod, labels map[string]string) v1beta1.PodMetrics {
	out := v1beta1.PodMetrics{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, Name: p.Name, Labels: labels, CreationTimestamp: metav1.NewTime(m.At),
		},
		Timestamp: metav1.NewTime(m.At), Containers: make([]v1beta1.ContainerMetrics, 0, len(p.Containers)),
	}
	for _, c := range p.Containers {
		out.Window.Duration = max(out.Window.Duration, c.Use.Window)
		out.Containers = append(out.Containers, v1beta1.ContainerMetrics{Name: c.Name, Usage: c.Use.list()})
	}
	return out
}

// NodeMetrics returns the object of the node, with the node's labels.
func (m *Measurement) NodeMetrics(labels map[string]string) v1beta1.NodeMetrics {
	return v1beta1.NodeMetrics{
		ObjectMeta: metav1.ObjectMeta{Name: m.Node, Labels: labels, CreationTimestamp: metav1.NewTime(m.At)},
		Timestamp:  metav1.NewTime(m.At), Window: metav1.Duration{Duration: m.Machine.Window}, Usage: m.Machine.list(),
	}
}

// AddToScheme registers the Go types, also as those that the server works with.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(schema.GroupVersion{Group: v1beta1.GroupName, Version: runtime.APIVersionInternal},
		&v1beta1.PodMetrics{}, &v1beta1.PodMetricsList{}, &v1beta1.NodeMetrics{}, &v1beta1.NodeMetricsList{})
	return v1beta1.AddToScheme(s)
}
