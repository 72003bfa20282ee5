package daemon

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
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/jobd/jobd/api/server"
	"github.com/jobd/jobd/daemon/config"
	"github.com/jobd/jobd/store"
)

// describeNode is this machine as clients see it: the one node there is. containers is what runs them, as the runtime
// says it of itself: "containerd 2.4.2 with ...".
func describeNode(h host, c *config.Config, containers string, allocatable corev1.ResourceList) (*corev1.Node, error) {
	capacity, err := machine(c.Root)
	if err != nil {
		return nil, err
	}
	capacity[corev1.ResourcePods] = *resource.NewQuantity(int64(c.MaxPods), resource.DecimalSI)
	room := maps.Clone(capacity)
	maps.Copy(room, allocatable)
	name, rest, _ := strings.Cut(containers, " ")
	version, _, _ := strings.Cut(rest, " ")
	condition := func(t corev1.NodeConditionType, status corev1.ConditionStatus, reason, message string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: t, Status: status, Reason: reason, Message: message}
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: h.Name,
			Labels: map[string]string{
				corev1.LabelHostname: h.Name, corev1.LabelOSStable: runtime.GOOS, corev1.LabelArchStable: runtime.GOARCH,
			},
		},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: room,
			Conditions: []corev1.NodeCondition{
				condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
				condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
				condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
				condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"),
			},
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: h.IP}, {Type: corev1.NodeHostName, Address: h.Name},
			},
			NodeInfo: corev1.NodeSystemInfo{
				MachineID: line("/etc/machine-id"), SystemUUID: line("/sys/class/dmi/id/product_uuid"), BootID: h.Boot,
				KernelVersion: line("/proc/sys/kernel/osrelease"), OSImage: osImage(),
				ContainerRuntimeVersion: name + "://" + version, KubeletVersion: server.KubernetesVersion(c.Version),
				OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH,
			},
		},
	}, nil
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

// showNode writes the node as it is now, and leaves alone what is others' of it: its spec, by which it is cordoned, and
// their labels and annotations.
func (p *pass) showNode() error {
	p.records.nodeShown = true
	if p.self == nil {
		return nil
	}
	key := store.Key(nodes, "", p.self.Name)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: p.self.Name, UID: uuid.NewUUID(), CreationTimestamp: metav1.NewTime(p.now)}}
	if stored, ok := p.tx.Get(key); ok {
		*node = corev1.Node{}
		if err := decode(stored, node); err != nil {
			return err
		}
	}
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	maps.Copy(node.Labels, p.self.Labels)
	before, images := node.Status.Conditions, node.Status.Images
	p.self.Status.DeepCopyInto(&node.Status)
	node.Status.Images = images // what is here is seen to by imageGC
	for i := range node.Status.Conditions {
		c := &node.Status.Conditions[i]
		c.LastHeartbeatTime, c.LastTransitionTime = metav1.NewTime(p.now), metav1.NewTime(p.now)
		for _, b := range before {
			if underDiskPressure(b) && b.Type == c.Type {
				*c = b // diskPressure sees to it
			}
			if b.Type == c.Type && b.Status == c.Status {
				c.LastTransitionTime = b.LastTransitionTime
			}
		}
	}
	p.records.setNode(node)
	return p.put(key, node)
}

// foldNode follows the cordon and taints (NodeSpec), and shows the node again when somebody has deleted it.
func (p *pass) foldNode(c store.Change) error {
	if c.Object.Key != store.Key(nodes, "", p.host.Name) {
		return nil
	}
	if c.Deleted {
		p.records.nodeShown = false
		return nil
	}
	node := &corev1.Node{}
	if err := decode(c.Object, node); err != nil {
		return err
	}
	p.records.setNode(node)
	return nil
}

// readNode takes in the node as it is stored.
func (r *records) readNode(s *store.Snapshot) error {
	stored, ok := s.Get(store.Key(nodes, "", r.room.name))
	if !ok {
		return nil
	}
	node := &corev1.Node{}
	if err := decode(stored, node); err != nil {
		return err
	}
	r.setNode(node)
	return nil
}

// setNode takes in what others say of the node: the cordon, taints and labels.
func (r *records) setNode(node *corev1.Node) {
	r.node.Describe(node)
	r.setTaints(node.Spec.Taints)
}
