package core

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// set sets one amount of a container, or removes it.
func set(list *corev1.ResourceList, name corev1.ResourceName, amount string) {
	*list = list.DeepCopy()
	if amount == "" {
		delete(*list, name)
		return
	}
	if *list == nil {
		*list = corev1.ResourceList{}
	}
	(*list)[name] = resource.MustParse(amount)
}

func TestResizeOfAPod(t *testing.T) {
	const (
		some   = `{requests: {cpu: 100m, memory: 64Mi}, limits: {cpu: 200m, memory: 64Mi}}`
		cpu    = corev1.ResourceCPU
		memory = corev1.ResourceMemory
	)
	for rule, tc := range map[string]struct {
		spec   string // of the pod, without containers: c has some resources, and a sidecar s, and an init container i
		change func(c *corev1.Pod)
		want   string
	}{
		"amounts of a container":           {change: func(p *corev1.Pod) { set(&p.Spec.Containers[0].Resources.Limits, cpu, "1") }},
		"of a sidecar":                     {change: func(p *corev1.Pod) { set(&p.Spec.InitContainers[1].Resources.Requests, memory, "1Mi") }},
		"of an init container":             {change: func(p *corev1.Pod) { set(&p.Spec.InitContainers[0].Resources.Requests, memory, "1Mi") }},
		"what is no resource is as it was": {change: func(p *corev1.Pod) { p.Spec.Containers[0].Image, p.Spec.NodeName, p.Labels = "x", "n", nil }},
		"a request above the limit": {
			change: func(p *corev1.Pod) { set(&p.Spec.Containers[0].Resources.Requests, cpu, "5") },
			want:   "spec.containers[0].resources.requests: Invalid value: \"5\": must be less than or equal to cpu limit of 200m",
		},
		"a request is removed": {
			change: func(p *corev1.Pod) { set(&p.Spec.Containers[0].Resources.Requests, cpu, "") },
			want:   "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed",
		},
		"a limit is removed": {
			change: func(p *corev1.Pod) { set(&p.Spec.InitContainers[1].Resources.Limits, memory, "") },
			want:   "spec.initContainers[1].resources.limits: Forbidden: resource limits cannot be removed",
		},
		"another resource": {
			change: func(p *corev1.Pod) { set(&p.Spec.Containers[0].Resources.Limits, "ephemeral-storage", "1Gi") },
			want:   "spec: Forbidden: only cpu and memory resources are mutable",
		},
		"another resource of a sidecar": {
			change: func(p *corev1.Pod) { set(&p.Spec.InitContainers[1].Resources.Limits, "ephemeral-storage", "1Gi") },
			want:   "spec.initContainers[1]: Forbidden: only cpu and memory resources for init or sidecar containers are mutable",
		},
		"the policy": {change: func(p *corev1.Pod) {
			p.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: cpu, RestartPolicy: corev1.NotRequired}}
		}, want: "spec: Forbidden: only cpu and memory resources are mutable"},
		"another class": {
			change: func(p *corev1.Pod) { guarantee(p.Spec.Containers); guarantee(p.Spec.InitContainers) },
			want:   `spec: Invalid value: "Burstable": Pod QOS Class may not change as a result of resizing`,
		},
		"a container more": {change: func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "d", Image: "x"})
		}, want: "spec.containers: Forbidden: containers may not be added or removed on resize"},
		"a container renamed": {
			change: func(p *corev1.Pod) { p.Spec.InitContainers[1].Name = "x" },
			want:   "spec.initContainers[1].name: Forbidden: initContainers may not be renamed or reordered on resize",
		},
		"those of the whole pod": {spec: `resources: {limits: {cpu: 2}}`, change: func(p *corev1.Pod) { set(&p.Spec.Resources.Limits, cpu, "3") }},
		"a limit of the whole pod goes": {
			spec:   `resources: {limits: {cpu: 2, memory: 1Gi}}`,
			change: func(p *corev1.Pod) { set(&p.Spec.Resources.Limits, memory, "") },
			want:   "spec.resources.limits: Forbidden: pod-level resource limits cannot be removed",
		},
		"huge pages of the whole pod": {spec: `resources: {limits: {cpu: 2, hugepages-2Mi: 2Mi}}`, change: func(p *corev1.Pod) {
			set(&p.Spec.Resources.Limits, "hugepages-2Mi", "4Mi")
			set(&p.Spec.Resources.Requests, "hugepages-2Mi", "4Mi")
		}, want: "spec: Forbidden: only cpu and memory resources are mutable at pod-level"},
		"a client that knows no whole pod's": {spec: `resources: {limits: {cpu: 2}}`, change: func(p *corev1.Pod) { p.Spec.Resources = nil }},
		"those of a whole pod that has none": {change: func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{}
			set(&p.Spec.Resources.Limits, cpu, "3")
		}, want: "spec.resources: Forbidden: pod-level resources cannot be added to a pod that is bound to a node"},
		"a pod for Windows": {
			spec: `os: {name: windows}`, change: func(p *corev1.Pod) { set(&p.Spec.Containers[0].Resources.Limits, cpu, "1") },
			want: ": Forbidden: windows pods cannot be resized",
		},
	} {
		t.Run(rule, func(t *testing.T) {
			pod := podOf(t, `{metadata: {name: p, namespace: default, resourceVersion: "7", labels: {a: b}}, spec: {`+tc.spec+`
				`+strings.Repeat(",", min(len(tc.spec), 1))+`
				initContainers: [{name: i, image: i, resources: `+some+`}, {name: s, image: i, restartPolicy: Always, resources: `+some+`}],
				containers: [{name: c, image: i, resources: `+some+`}]}}`)
			SetPodDefaults(pod)
			PreparePod(pod, someTime)
			pod.Spec.NodeName = "here"
			changed := pod.DeepCopy()
			tc.change(changed)
			preparePodResize(changed, pod)
			errs := validatePodResize(changed, pod)
			if got := fmt.Sprint(errs.ToAggregate()); tc.want == "" && len(errs) > 0 || !strings.Contains(got, tc.want) {
				t.Errorf("got %s, want %q", got, tc.want)
			}
			if tc.want == "" && changed.Labels["a"] != "b" {
				t.Error("the labels have changed")
			}
		})
	}
}

// guarantee makes limits of what containers request.
func guarantee(containers []corev1.Container) {
	for i := range containers {
		containers[i].Resources.Requests = containers[i].Resources.Limits.DeepCopy()
	}
}

func TestResizePolicy(t *testing.T) {
	for spec, want := range map[string]string{
		`restartPolicy: Always, containers: [{name: c, image: i, resizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}, {resourceName: memory, restartPolicy: NotRequired}]}]`: "",
		`restartPolicy: Always, containers: [{name: c, image: i, resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}, {resourceName: cpu, restartPolicy: NotRequired}]}]`:         `spec.containers[0].resizePolicy[1]: Duplicate value: "cpu"`,
		`restartPolicy: Always, containers: [{name: c, image: i, resizePolicy: [{resourceName: disk, restartPolicy: NotRequired}]}]`:                                                         `spec.containers[0].resizePolicy: Unsupported value: "disk": supported values: "cpu", "memory"`,
		`restartPolicy: Always, containers: [{name: c, image: i, resizePolicy: [{resourceName: cpu, restartPolicy: Maybe}]}]`:                                                                `spec.containers[0].resizePolicy: Unsupported value: "Maybe": supported values: "NotRequired", "RestartContainer"`,
		`restartPolicy: Never, containers: [{name: c, image: i, resizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}]}]`:                                                      "spec.containers[0].resizePolicy: Invalid value: \"RestartContainer\": must be 'NotRequired' when pod `restartPolicy` is 'Never'",
		`restartPolicy: Always, initContainers: [{name: i, image: i, resizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}]}], containers: [{name: c, image: i}]`:              `spec.initContainers[0].resizePolicy[0].restartPolicy: Invalid value: "RestartContainer": must not be set to 'RestartContainer' for non-sidecar initContainers`,
	} {
		pod := podOf(t, `{metadata: {name: p, namespace: default}, spec: {`+spec+`}}`)
		SetPodDefaults(pod)
		PreparePod(pod, someTime)
		if got := fmt.Sprint(ValidatePod(pod).ToAggregate()); want == "" && got != "<nil>" || !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %q", spec, got, want)
		}
	}
}
