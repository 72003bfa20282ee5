package host

import (
	"bufio"
	"bytes"
	"maps"
	"os"
	"runtime"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/server"
)

// Description is what a Node object says that is not known of the machine alone.
type Description struct {
	// Capacity is what the machine has, devices too; Allocatable is what pods may ask for where that is something else.
	Capacity, Allocatable corev1.ResourceList
	MaxPods               int
	// Runtime is what runs containers, as it says of itself: "containerd 2.4.2 with ...".
	Runtime string
	// Version is that of this daemon.
	Version string
}

// Node is this machine as clients see it: the one node there is.
func (h Host) Node(d Description) *corev1.Node {
	capacity := corev1.ResourceList{}
	maps.Copy(capacity, d.Capacity)
	capacity[corev1.ResourcePods] = *resource.NewQuantity(int64(d.MaxPods), resource.DecimalSI)
	allocatable := maps.Clone(capacity)
	maps.Copy(allocatable, d.Allocatable)
	name, rest, _ := strings.Cut(d.Runtime, " ")
	version, _, _ := strings.Cut(rest, " ")
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:   h.Name,
			Labels: h.Labels(),
		},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: allocatable,
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
				ContainerRuntimeVersion: name + "://" + version, KubeletVersion: server.KubernetesVersion(d.Version),
				OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH,
			},
		},
	}
}

// line is the one line of a small file, empty where there is none.
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
