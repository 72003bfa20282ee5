// Package gpus is the format in which jobd says what GPUs do, and who uses them: GET /apis/gpus.jobd.dev/v1/gpus, which only jobd has,
// answers with a List as JSON. Programs can rely on the fields; further ones may be added within the version.
package gpus

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Group, Version and Kind are those of the answer.
const (
	Group   = "gpus.jobd.dev"
	Version = "v1"
	Kind    = "GPUList"
	// Path is that of the request.
	Path = "/apis/" + Group + "/" + Version + "/gpus"
	// Processes is what somebody has to be allowed to list in the group who is to learn which processes of the host use a GPU, and
	// whose they are.
	Processes = "processes"
)

// List are the GPUs that pods may request.
type List struct {
	metav1.TypeMeta `json:",inline"`
	// At is when they were looked at.
	At metav1.Time `json:"at,omitzero"`
	// Driver is the version of the driver.
	Driver string `json:"driver,omitempty"`
	// Error says why there are no newer figures.
	Error string `json:"error,omitempty"`
	Items []GPU  `json:"items"`
}

// GPU is a card, or a MIG device of one.
type GPU struct {
	// Device is its name in the CDI file: nvidia.com/gpu=0.
	Device string `json:"device"`
	// Index is the number of the card, Minor that of /dev/nvidiaN. Instance is the id of the GPU instance of a MIG device.
	Index    int    `json:"index"`
	Minor    int    `json:"minor"`
	Instance *int   `json:"instance,omitempty"`
	Name     string `json:"name,omitempty"`
	UUID     string `json:"uuid,omitempty"`
	BusID    string `json:"busID,omitempty"`
	// Utilization and MemoryUtilization are percent of the time, Memory and MemoryUsed bytes, Temperature is in degrees Celsius, Power in
	// watts. What the driver does not tell is missing.
	Utilization       *int     `json:"utilization,omitempty"`
	MemoryUtilization *int     `json:"memoryUtilization,omitempty"`
	Memory            *int64   `json:"memory,omitempty"`
	MemoryUsed        *int64   `json:"memoryUsed,omitempty"`
	Temperature       *int     `json:"temperature,omitempty"`
	Power             *float64 `json:"power,omitempty"`
	// Pods are those that have it and that the client may see, Others how many further pods do.
	Pods   []Pod `json:"pods,omitempty"`
	Others int   `json:"others,omitempty"`
	// InUse says that programs which are not jobd's use it, so that pods do not get it. Processes are those, for administrators.
	InUse     bool      `json:"inUse,omitempty"`
	Processes []Process `json:"processes,omitempty"`
}

// Pod is a pod that has a GPU, or a share of one.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Container string `json:"container,omitempty"`
	// Shared says that others may have it at the same time.
	Shared bool `json:"shared,omitempty"`
	// MemoryUsed is what its processes have of the memory of the GPU, in bytes, if that is known.
	MemoryUsed *int64 `json:"memoryUsed,omitempty"`
}

// Process is a process that is not jobd's.
type Process struct {
	PID        int    `json:"pid"`
	User       string `json:"user"`
	Program    string `json:"program,omitempty"`
	MemoryUsed *int64 `json:"memoryUsed,omitempty"`
}

// Label names a GPU for people: "GPU 0", or "GPU 0 MIG 3".
func (g *GPU) Label() string {
	label := fmt.Sprintf("GPU %d", g.Index)
	if g.Instance != nil {
		label += fmt.Sprintf(" MIG %d", *g.Instance)
	}
	return label
}

// String describes a process for people: pid 4711 of carol (python), 9 GB.
func (p *Process) String() string {
	text := fmt.Sprintf("pid %d", p.PID)
	if p.User != "" {
		text += " of " + p.User
	}
	if p.Program != "" {
		text += " (" + p.Program + ")"
	}
	if p.MemoryUsed != nil {
		text += ", " + Bytes(*p.MemoryUsed)
	}
	return text
}

// Bytes formats an amount of memory for people, in the units in which cards are sold.
func Bytes(n int64) string {
	if n < 1<<30 {
		return fmt.Sprintf("%d MB", (n+1<<19)>>20)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/(1<<30)), ".0") + " GB"
}
