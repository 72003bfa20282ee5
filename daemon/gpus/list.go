package gpus

import (
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	wire "github.com/jobd/jobd/api/gpus"
	"github.com/jobd/jobd/runtime/nvidia"
)

// Named returns the names of pods by their UIDs.
type Named func(ctx context.Context, uids []types.UID) (map[types.UID]types.NamespacedName, error)

// List returns what the GPUs do now, with all that uses them.
func (w *Watcher) List(ctx context.Context, named Named) (*wire.List, error) {
	list := &wire.List{
		TypeMeta: metav1.TypeMeta{APIVersion: wire.Group + "/" + wire.Version, Kind: wire.Kind}, Items: []wire.GPU{},
	}
	cards := w.o.Devices.Cards()
	if len(cards) == 0 {
		return list, nil
	}
	if err := w.Look(ctx, fresh); err != nil {
		list.Error = err.Error()
	}
	v := w.view()
	if v.report == nil {
		return list, nil
	}
	list.At, list.Driver = metav1.NewTime(v.report.At), v.report.Driver
	holders := w.o.Devices.Holders()
	var uids []types.UID
	for _, pods := range holders {
		for uid := range pods {
			uids = append(uids, types.UID(uid))
		}
	}
	names, err := named(ctx, uids)
	if err != nil {
		return nil, err
	}
	kept := foreign(v.uses)
	for _, device := range slices.SortedFunc(maps.Keys(cards), byNumber) {
		for _, part := range partsOf(cards[device], v.report, v.caps) {
			g := gpuOf(device, part)
			g.InUse = kept[device]
			for _, uid := range slices.Sorted(maps.Keys(holders[device])) {
				if name, ok := names[types.UID(uid)]; ok {
					pod := wire.Pod{Namespace: name.Namespace, Name: name.Name, Shared: holders[device][uid] > 0}
					pod.MemoryUsed = memoryOf(v.uses, device, uid)
					g.Pods = append(g.Pods, pod)
				}
			}
			for i := range v.uses {
				if u := &v.uses[i]; u.device == device && u.Pod == "" {
					g.Processes = append(g.Processes, wire.Process{PID: u.PID, User: u.User, Program: u.program(), MemoryUsed: known(u.Memory)})
				}
			}
			list.Items = append(list.Items, g)
		}
	}
	return list, nil
}

// memoryOf returns what the processes of a pod have of the memory of a device.
func memoryOf(uses []use, device, pod string) *int64 {
	sum, some := int64(0), false
	for _, u := range uses {
		if u.device == device && u.Pod == pod && u.Memory != nvidia.Unknown {
			sum, some = sum+u.Memory, true
		}
	}
	if !some {
		return nil
	}
	return &sum
}

func known[N int | int64 | float64](n N) *N {
	if n == nvidia.Unknown {
		return nil
	}
	return &n
}

func gpuOf(device string, p part) wire.GPU {
	g := wire.GPU{
		Device: device, Index: p.gpu.Index, Minor: p.gpu.Minor, Name: p.gpu.Name, UUID: p.gpu.UUID, BusID: p.gpu.BusID,
		Temperature: known(p.gpu.Temperature), Power: known(p.gpu.Power),
	}
	if p.instance.gpu == nvidia.Unknown {
		g.Utilization, g.MemoryUtilization = known(p.gpu.Utilization), known(p.gpu.MemoryUtilization)
		g.Memory, g.MemoryUsed = known(p.gpu.Memory), known(p.gpu.Used)
		return g
	}
	g.Instance = &p.instance.gpu
	for _, i := range p.gpu.Instances {
		if i.GPU == p.instance.gpu && (p.instance.compute == nvidia.Unknown || i.Compute == p.instance.compute) {
			g.Memory, g.MemoryUsed = known(i.Memory), known(i.Used)
			break
		}
	}
	return g
}

// InUse returns the devices of a kind that are kept from pods, with the processes that use them. If the kind is a share of
// devices, these are meant. looked is false as long as nobody has looked.
func (w *Watcher) InUse(kind corev1.ResourceName) (all []wire.GPU, looked bool) {
	v := w.view()
	if v.report == nil {
		return nil, !v.tried.IsZero()
	}
	cards := w.o.Devices.Cards()
	kind, _ = w.o.Devices.Whole(kind)
	for device := range foreign(v.uses) {
		if !strings.HasPrefix(device, string(kind)+"=") {
			continue
		}
		for _, part := range partsOf(cards[device], v.report, v.caps) {
			g := gpuOf(device, part)
			for i := range v.uses {
				if u := &v.uses[i]; u.device == device && u.foreign() {
					g.Processes = append(g.Processes, wire.Process{PID: u.PID, User: u.User, Program: u.program(), MemoryUsed: known(u.Memory)})
				}
			}
			all = append(all, g)
		}
	}
	slices.SortFunc(all, func(a, b wire.GPU) int { return byNumber(a.Device, b.Device) })
	return all, true
}

// byNumber puts gpu=2 before gpu=10.
func byNumber(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}
