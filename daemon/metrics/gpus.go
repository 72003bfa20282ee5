package metrics

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	wire "github.com/jobd/jobd/api/gpus"
)

// gpuTimeout bounds how long nvidia-smi may keep somebody waiting who reads the metrics.
const gpuTimeout = 5 * time.Second

// gpus are the metrics of GPUs.
type gpus struct {
	list func(ctx context.Context) (*wire.List, error)
	host string
}

// ShowGPUs adds metrics of the GPUs, under the names and with the labels of NVIDIA's DCGM exporter. It is called before Register.
func (m *Metrics) ShowGPUs(host string, list func(ctx context.Context) (*wire.List, error)) {
	m.all = append(m.all, gpus{list, host})
}

// Describe implements prometheus.Collector. It describes nothing: without GPUs there are no metrics.
func (g gpus) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (g gpus) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), gpuTimeout)
	defer cancel()
	list, err := g.list(ctx)
	if err != nil {
		return
	}
	w := &stateWriter{out: out, descs: map[string]*prometheus.Desc{}, written: map[string]bool{}}
	if list.Error != "" { // older figures would be taken for those of now
		w.gauge("jobd_gpu_look_failed", "Whether nvidia-smi does not say what the GPUs do.", 1, nil)
		return
	}
	for i := range list.Items {
		w.gpu(g.host, list.Driver, &list.Items[i])
	}
}

// gpu writes what a GPU does, with the pod that has it; of a shared one for each of them, as the exporter does.
func (w *stateWriter) gpu(host, driver string, g *wire.GPU) {
	instance := ""
	if g.Instance != nil {
		instance = strconv.Itoa(*g.Instance)
	}
	pods := g.Pods
	if len(pods) == 0 {
		pods = []wire.Pod{{}}
	}
	for _, pod := range pods {
		o := of{w, []string{
			"gpu", "UUID", "pci_bus_id", "device", "modelName", "Hostname", "DCGM_FI_DRIVER_VERSION", "GPU_I_ID", "container", "namespace", "pod",
		}, []string{
			strconv.Itoa(g.Index), g.UUID, g.BusID, "nvidia" + strconv.Itoa(g.Minor), g.Name, host, driver, instance,
			pod.Container, pod.Namespace, pod.Name,
		}}
		optionalInt(o, "DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).", g.Utilization)
		optionalInt(o, "DCGM_FI_DEV_MEM_COPY_UTIL", "Memory utilization (in %).", g.MemoryUtilization)
		optionalInt(o, "DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C).", g.Temperature)
		if g.Power != nil {
			o.gauge("DCGM_FI_DEV_POWER_USAGE", "Power draw (in W).", *g.Power)
		}
		if g.MemoryUsed != nil {
			o.gauge("DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).", float64(*g.MemoryUsed>>20))
			if g.Memory != nil {
				o.gauge("DCGM_FI_DEV_FB_FREE", "Framebuffer memory free (in MiB).", float64(max(0, *g.Memory-*g.MemoryUsed)>>20))
			}
		}
		if pod.MemoryUsed != nil {
			o.gauge("jobd_pod_gpu_memory_used_bytes", "Memory of the GPU that the processes of the pod have.", float64(*pod.MemoryUsed))
		}
	}
	w.gauge("jobd_gpu_in_use_by_others", "Whether programs that are not jobd's use the GPU, so that pods do not get it.", flag(g.InUse),
		[]string{"gpu", "UUID", "GPU_I_ID"}, strconv.Itoa(g.Index), g.UUID, instance)
}

func optionalInt(o of, name, help string, n *int) {
	if n != nil {
		o.gauge(name, help, float64(*n))
	}
}
