package host

import (
	"bufio"
	"bytes"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/scheme"
)

// Description is what a Node object says that the machine itself does not know.
type Description struct {
	// Capacity is what the machine has, without devices. Allocatable is what pods may request, if that differs.
	Capacity, Allocatable corev1.ResourceList
	MaxPods               int
	// UserNamespaces says that pods can have user namespaces of their own.
	UserNamespaces bool
	// Runtime names what runs containers: "containerd 2.4.2 with ...".
	Runtime string
	// Handlers are the OCI runtimes that pods can choose, by the names that RuntimeClasses have for them.
	Handlers []string
	// Version is the version of this daemon.
	Version string
}

// Node returns the Node object of this machine, the only one there is.
func (h Host) Node(d Description) *corev1.Node {
	capacity := corev1.ResourceList{}
	maps.Copy(capacity, d.Capacity)
	capacity[corev1.ResourcePods] = *resource.NewQuantity(int64(d.MaxPods), resource.DecimalSI)
	allocatable := maps.Clone(capacity)
	maps.Copy(allocatable, d.Allocatable)
	var handlers []corev1.NodeRuntimeHandler
	if len(d.Handlers) > 0 {
		for _, name := range append([]string{""}, d.Handlers...) { // that of pods without a class
			handler := corev1.NodeRuntimeHandler{Name: name}
			if slices.Contains([]string{"", "crun", "runc"}, name) { // nobody knows of others
				handler.Features = &corev1.NodeRuntimeHandlerFeatures{UserNamespaces: &d.UserNamespaces}
			}
			handlers = append(handlers, handler)
		}
	}
	name, rest, _ := strings.Cut(d.Runtime, " ")
	version, _, _ := strings.Cut(rest, " ")
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:   h.Name,
			Labels: h.Labels(),
		},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: allocatable, RuntimeHandlers: handlers,
			Features: &corev1.NodeFeatures{SupplementalGroupsPolicy: new(true)},
			Conditions: []corev1.NodeCondition{
				{
					Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse,
					Reason: "KubeletHasSufficientMemory", Message: "kubelet has sufficient memory available",
				}, {
					Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse,
					Reason: "KubeletHasNoDiskPressure", Message: "kubelet has no disk pressure",
				}, {
					Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse,
					Reason: "KubeletHasSufficientPID", Message: "kubelet has sufficient PID available",
				}, {
					Type: corev1.NodeReady, Status: corev1.ConditionTrue,
					Reason: "KubeletReady", Message: "kubelet is posting ready status",
				},
			},
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: h.IP}, {Type: corev1.NodeHostName, Address: h.Name},
			},
			NodeInfo: corev1.NodeSystemInfo{
				MachineID: line("/etc/machine-id"), SystemUUID: line("/sys/class/dmi/id/product_uuid"), BootID: h.Boot,
				KernelVersion: line("/proc/sys/kernel/osrelease"), OSImage: osImage(),
				ContainerRuntimeVersion: name + "://" + version, KubeletVersion: scheme.KubernetesVersion(d.Version),
				OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH,
			},
		},
	}
}

// line returns the only line of a small file; empty if there is no such file.
func line(path string) string {
	data, _ := os.ReadFile(path)
	return string(bytes.TrimSpace(data))
}

func osImage() string {
	file, err := os.Open("/etc/os-release")
	if err != nil {
		return ""
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if name, ok := strings.CutPrefix(lines.Text(), "PRETTY_NAME="); ok {
			if plain, err := strconv.Unquote(name); err == nil {
				return plain
			}
			return name
		}
	}
	return ""
}
