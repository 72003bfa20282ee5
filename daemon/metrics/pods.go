package metrics

import (
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	jobd "github.com/jobd/jobd/runtime"
)

var (
	podPhases = []corev1.PodPhase{corev1.PodPending, corev1.PodSucceeded, corev1.PodFailed, corev1.PodUnknown, corev1.PodRunning}
	// podReasons are those that kube-state-metrics tells apart for a pod.
	podReasons = []string{"Evicted", "NodeAffinity", "NodeLost", "Shutdown", "UnexpectedAdmissionError"}
)

func (w *stateWriter) pod(p *corev1.Pod) {
	o := of{w, []string{"namespace", "pod", "uid"}, []string{p.Namespace, p.Name, string(p.UID)}}
	kind, name := "", ""
	if owner := metav1.GetControllerOfNoCopy(p); owner != nil {
		kind, name = owner.Kind, owner.Name
	}
	o.with("kube_pod_info", "A pod that exists.", 1,
		[]string{"host_ip", "pod_ip", "node", "created_by_kind", "created_by_name", "priority_class", "host_network"},
		p.Status.HostIP, p.Status.PodIP, p.Spec.NodeName, kind, name, p.Spec.PriorityClassName, strconv.FormatBool(p.Spec.HostNetwork))
	o.owners("kube_pod_owner", "Who owns the pod.", p.OwnerReferences)
	o.time("kube_pod_created", "When the pod was created, in seconds since 1970.", &p.CreationTimestamp)
	o.time("kube_pod_start_time", "When the pod was taken on by the node, in seconds since 1970.", p.Status.StartTime)
	o.time("kube_pod_deletion_timestamp", "When the pod that is being deleted is to be gone, in seconds since 1970.", p.DeletionTimestamp)
	o.with("kube_pod_restart_policy", "The restart policy of the pod.", 1, []string{"type"}, string(p.Spec.RestartPolicy))
	for _, phase := range podPhases {
		o.with("kube_pod_status_phase", "Whether the pod is in a phase.", flag(p.Status.Phase == phase), []string{"phase"}, string(phase))
	}
	for _, reason := range podReasons {
		o.with("kube_pod_status_reason", "Whether the pod has failed for a reason.", flag(p.Status.Reason == reason), []string{"reason"}, reason)
	}
	o.with("kube_pod_status_qos_class", "The quality of service class of the pod.", 1, []string{"qos_class"}, string(p.Status.QOSClass))
	for _, c := range p.Status.Conditions {
		switch c.Type {
		case corev1.PodReady:
			o.condition("kube_pod_status_ready", "Whether the pod is ready.", c.Status)
		case corev1.PodScheduled:
			o.condition("kube_pod_status_scheduled", "Whether the pod has a place on the node.", c.Status)
		}
	}
	var completed *metav1.Time
	for _, part := range []struct {
		prefix   string
		specs    []corev1.Container
		statuses []corev1.ContainerStatus
	}{
		{"kube_pod_container_", p.Spec.Containers, p.Status.ContainerStatuses},
		{"kube_pod_init_container_", p.Spec.InitContainers, p.Status.InitContainerStatuses},
	} {
		for i := range part.specs {
			w.resources(p, part.prefix, &part.specs[i])
		}
		for i := range part.statuses {
			s := &part.statuses[i]
			w.containerStatus(p, part.prefix, s)
			if t := s.State.Terminated; t != nil && (completed == nil || completed.Before(&t.FinishedAt)) {
				completed = &t.FinishedAt
			}
		}
	}
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		o.time("kube_pod_completion_time", "When the last container of the pod ended, in seconds since 1970.", completed)
	}
}

func (w *stateWriter) containerStatus(p *corev1.Pod, prefix string, s *corev1.ContainerStatus) {
	o := of{w, []string{"namespace", "pod", "uid", "container"}, []string{p.Namespace, p.Name, string(p.UID), s.Name}}
	spec := ""
	for _, list := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		if i := slices.IndexFunc(list, func(c corev1.Container) bool { return c.Name == s.Name }); i >= 0 {
			spec = list[i].Image
		}
	}
	o.with(prefix+"info", "A container of a pod.", 1, []string{"image", "image_spec", "image_id", "container_id"}, s.Image, spec, s.ImageID, s.ContainerID)
	waiting, running, ended := s.State.Waiting, s.State.Running, s.State.Terminated
	o.gauge(prefix+"status_waiting", "Whether the container waits.", flag(waiting != nil))
	o.gauge(prefix+"status_running", "Whether the container runs.", flag(running != nil))
	o.gauge(prefix+"status_terminated", "Whether the container has ended.", flag(ended != nil))
	o.gauge(prefix+"status_ready", "Whether the container is ready.", flag(s.Ready))
	w.write(prefix+"status_restarts_total", "How often the container was restarted.", prometheus.CounterValue, float64(s.RestartCount), o.labels, o.values...)
	if waiting != nil && waiting.Reason != "" {
		o.with(prefix+"status_waiting_reason", "Why the container waits.", 1, []string{"reason"}, waiting.Reason)
	}
	if ended != nil && ended.Reason != "" {
		o.with(prefix+"status_terminated_reason", "How the container has ended.", 1, []string{"reason"}, ended.Reason)
	}
	if running != nil {
		o.time(strings.TrimSuffix(prefix, "_")+"_state_started", "When the container was started, in seconds since 1970.", &running.StartedAt)
	} else if ended != nil {
		o.time(strings.TrimSuffix(prefix, "_")+"_state_started", "When the container was started, in seconds since 1970.", &ended.StartedAt)
	}
	if last := s.LastTerminationState.Terminated; last != nil {
		o.with(prefix+"status_last_terminated_reason", "How the container ended the time before.", 1, []string{"reason"}, last.Reason)
		o.gauge(prefix+"status_last_terminated_exitcode", "The exit code of the container the time before.", float64(last.ExitCode))
		o.time(prefix+"status_last_terminated_timestamp", "When the container ended the time before, in seconds since 1970.", &last.FinishedAt)
	}
}

// resources writes what a container requests, and its limits.
func (w *stateWriter) resources(p *corev1.Pod, prefix string, c *corev1.Container) {
	o := of{w, []string{"namespace", "pod", "uid", "container"}, []string{p.Namespace, p.Name, string(p.UID), c.Name}}
	for _, part := range []struct {
		name, help string
		list       corev1.ResourceList
	}{
		{prefix + "resource_requests", "What the container requests of a resource.", c.Resources.Requests},
		{prefix + "resource_limits", "How much the container may use of a resource.", c.Resources.Limits},
	} {
		for name, q := range part.list {
			unit := "integer"
			switch {
			case name == corev1.ResourceCPU:
				unit = "core"
			case name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
				unit = "byte"
			}
			o.with(part.name, part.help, q.AsApproximateFloat64(), []string{"node", "resource", "unit"}, p.Spec.NodeName, labelName(string(name)), unit)
		}
	}
}

// labelName returns the name of a resource as kube-state-metrics writes it: nvidia_com_gpu.
func labelName(resource string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, resource)
}

// containers writes what the running containers of a pod use.
func (w *stateWriter) containers(p *corev1.Pod, usage func(podUID, id string) (jobd.Usage, error)) {
	for _, list := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses, p.Status.EphemeralContainerStatuses} {
		for i := range list {
			s := &list[i]
			if s.State.Running == nil {
				continue
			}
			_, id, _ := strings.Cut(s.ContainerID, "://")
			if u, err := usage(string(p.UID), id); err == nil {
				w.usage(p, s, id, u)
			}
		}
	}
}

func (w *stateWriter) usage(p *corev1.Pod, s *corev1.ContainerStatus, id string, u jobd.Usage) {
	o := of{
		w, []string{"namespace", "pod", "container", "id", "image", "name"},
		[]string{p.Namespace, p.Name, s.Name, "/" + id, s.Image, id},
	}
	counter := func(name, help string, value float64, more ...string) {
		labels, values := o.labels, o.values
		if len(more) == 2 {
			labels, values = slices.Concat(labels, more[:1]), slices.Concat(values, more[1:])
		}
		w.write(name, help, prometheus.CounterValue, value, labels, values...)
	}
	counter("container_cpu_usage_seconds_total", "Processor time of the container, in seconds.", u.CPU.Seconds(), "cpu", "total")
	counter("container_cpu_user_seconds_total", "Processor time of the container outside of the kernel, in seconds.", u.User.Seconds())
	counter("container_cpu_system_seconds_total", "Processor time of the container in the kernel, in seconds.", u.System.Seconds())
	o.gauge("container_memory_usage_bytes", "Memory in use, with the page cache.", float64(u.Memory))
	o.gauge("container_memory_working_set_bytes", "Memory in use without what the kernel can take back at once.", float64(u.WorkingSet))
	o.gauge("container_memory_rss", "Anonymous memory, in bytes.", float64(u.RSS))
	o.gauge("container_memory_cache", "Page cache, in bytes.", float64(u.Cache))
	if u.PeakMemory > 0 {
		o.gauge("container_memory_max_usage_bytes", "The most memory that was in use, with the page cache.", float64(u.PeakMemory))
	}
	for kind, n := range map[string]int64{"pgfault": u.MinorFaults + u.MajorFaults, "pgmajfault": u.MajorFaults} {
		w.write("container_memory_failures_total", "Page faults.", prometheus.CounterValue, float64(n),
			slices.Concat(o.labels, []string{"failure_type", "scope"}), slices.Concat(o.values, []string{kind, "container"})...)
	}
	counter("container_oom_events_total", "Processes of the container that the kernel has killed for want of memory.", float64(u.OOMKills))
	o.gauge("container_start_time_seconds", "When the container was started, in seconds since 1970.", float64(s.State.Running.StartedAt.Unix()))
	for _, list := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range list {
			if list[i].Name != s.Name {
				continue
			}
			limit := 0.0
			if q, ok := list[i].Resources.Limits[corev1.ResourceMemory]; ok {
				limit = q.AsApproximateFloat64()
			}
			o.gauge("container_spec_memory_limit_bytes", "The limit of memory of the container; 0 is none.", limit)
		}
	}
}
