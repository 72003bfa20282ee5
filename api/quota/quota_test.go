package quota

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/api/core"
)

func amounts(of ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(of); i += 2 {
		out[corev1.ResourceName(of[i])] = resource.MustParse(of[i+1])
	}
	return out
}

func said(list corev1.ResourceList) string {
	m := map[string]string{}
	for name, amount := range list {
		m[string(name)] = amount.String()
	}
	return strings.TrimPrefix(fmt.Sprint(m), "map")
}

// anything limits so many of each resource that something is said of all of them.
func anything(names ...string) *corev1.ResourceQuota {
	q := &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{}}}
	for _, name := range names {
		q.Spec.Hard[corev1.ResourceName(name)] = resource.MustParse("1000")
	}
	return q
}

func pod(change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}, {Name: "b"}}}}
	p.Spec.Containers[0].Resources = corev1.ResourceRequirements{
		Requests: amounts("cpu", "1", "memory", "1Gi", "hugepages-2Mi", "4Mi", "example.com/dongle", "2", "ephemeral-storage", "1Gi"),
		Limits:   amounts("cpu", "2", "hugepages-2Mi", "4Mi", "example.com/dongle", "2"),
	}
	p.Spec.Containers[1].Resources.Requests = amounts("cpu", "500m")
	if change != nil {
		change(p)
	}
	return p
}

func TestUse(t *testing.T) {
	pods, claims := schema.GroupResource{Resource: "pods"}, schema.GroupResource{Resource: "persistentvolumeclaims"}
	services, jobs := schema.GroupResource{Resource: "services"}, schema.GroupResource{Group: "batch", Resource: "jobs"}
	all := []string{
		"pods", "count/pods", "cpu", "requests.cpu", "limits.cpu", "memory", "requests.memory", "limits.memory", "ephemeral-storage",
		"requests.ephemeral-storage", "hugepages-2Mi", "requests.hugepages-2Mi", "requests.example.com/dongle",
		"persistentvolumeclaims", "count/persistentvolumeclaims", "requests.storage", "fast.storageclass.storage.k8s.io/requests.storage",
		"fast.storageclass.storage.k8s.io/persistentvolumeclaims", "slow.storageclass.storage.k8s.io/requests.storage",
		"services", "count/services", "services.nodeports", "services.loadbalancers", "count/jobs.batch", "configmaps", "count/configmaps",
	}
	claim := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: ptr.To("fast"), Resources: corev1.VolumeResourceRequirements{Requests: amounts("storage", "10Gi")},
	}}
	growing := claim.DeepCopy()
	growing.Status.AllocatedResources = amounts("storage", "20Gi")
	service := func(kind corev1.ServiceType) *corev1.Service {
		return &corev1.Service{Spec: corev1.ServiceSpec{Type: kind, Ports: []corev1.ServicePort{{Port: 80}, {Port: 443}}}}
	}
	scoped := func(scopes ...corev1.ResourceQuotaScope) *corev1.ResourceQuota {
		q := anything("pods")
		q.Spec.Scopes = scopes
		return q
	}
	ofClass := func(operator corev1.ScopeSelectorOperator, values ...string) *corev1.ResourceQuota {
		q := anything("pods")
		q.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{
			{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: operator, Values: values},
		}}
		return q
	}
	important := pod(func(p *corev1.Pod) { p.Spec.PriorityClassName = "important" })
	limited := pod(func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr.To[int64](9) })
	cheap := pod(func(p *corev1.Pod) { p.Spec.Containers = []corev1.Container{{Name: "a"}} })
	across := pod(func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
				{PodAffinityTerm: corev1.PodAffinityTerm{Namespaces: []string{"x"}}},
			},
		}}
	})
	keeps := func(how string, there corev1.ConditionStatus) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Annotations = map[string]string{core.KeepFilesAnnotation: how}
			p.Status.Phase = corev1.PodSucceeded
			if there != "" {
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: there}}
			}
		}
	}
	for name, c := range map[string]struct {
		quota *corev1.ResourceQuota
		of    schema.GroupResource
		obj   runtime.Object
		want  string
	}{
		"nothing": {anything(all...), pods, nil, "[]"},
		"a pod": {anything(all...), pods, pod(nil), "[count/pods:1 cpu:1500m ephemeral-storage:1Gi hugepages-2Mi:4Mi limits.cpu:2 memory:1Gi pods:1 " +
			"requests.cpu:1500m requests.ephemeral-storage:1Gi requests.example.com/dongle:2 requests.hugepages-2Mi:4Mi requests.memory:1Gi]"},
		"a pod that has ended": {anything(all...), pods, pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), "[count/pods:1]"},
		"a pod that has ended and keeps its files": {
			anything(all...), pods, pod(keeps("1h", corev1.ConditionTrue)),
			"[count/pods:1 ephemeral-storage:1Gi requests.ephemeral-storage:1Gi]",
		},
		"a pod whose files have gone":            {anything(all...), pods, pod(keeps("1h", corev1.ConditionFalse)), "[count/pods:1]"},
		"a pod that keeps its files for no time": {anything(all...), pods, pod(keeps("yes", corev1.ConditionTrue)), "[count/pods:1]"},
		"a pod that never had any":               {anything(all...), pods, pod(keeps("1h", "")), "[count/pods:1]"},
		"a large init container": {anything("cpu"), pods, pod(func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: amounts("cpu", "3")}}}
		}), "[cpu:3]"},
		"the overhead of its class": {anything("cpu"), pods, pod(func(p *corev1.Pod) { p.Spec.Overhead = amounts("cpu", "100m") }), "[cpu:1600m]"},
		"a quota of other things":   {anything("secrets"), pods, pod(nil), "[]"},
		"a claim": {
			anything(all...), claims, claim,
			"[count/persistentvolumeclaims:1 fast.storageclass.storage.k8s.io/persistentvolumeclaims:1 " +
				"fast.storageclass.storage.k8s.io/requests.storage:10Gi persistentvolumeclaims:1 requests.storage:10Gi]",
		},
		"a claim that has got more": {anything("requests.storage"), claims, growing, "[requests.storage:20Gi]"},
		"a Service": {
			anything(all...), services, service(corev1.ServiceTypeClusterIP),
			"[count/services:1 services:1 services.loadbalancers:0 services.nodeports:0]",
		},
		"one with ports of the machine": {
			anything(all...), services, service(corev1.ServiceTypeNodePort),
			"[count/services:1 services:1 services.loadbalancers:0 services.nodeports:2]",
		},
		"one for a load balancer": {
			anything("services.nodeports", "services.loadbalancers"), services, service(corev1.ServiceTypeLoadBalancer),
			"[services.loadbalancers:1 services.nodeports:2]",
		},
		"a Job": {anything(all...), jobs, &metav1.PartialObjectMetadata{}, "[count/jobs.batch:1]"},
		"a ConfigMap": {
			anything(all...), schema.GroupResource{Resource: "configmaps"}, &metav1.PartialObjectMetadata{},
			"[configmaps:1 count/configmaps:1]",
		},
		"Terminating, with a deadline": {scoped("Terminating"), pods, limited, "[pods:1]"},
		"Terminating, without":         {scoped("Terminating"), pods, pod(nil), "[]"},
		"NotTerminating, without":      {scoped("NotTerminating"), pods, pod(nil), "[pods:1]"},
		"BestEffort":                   {scoped("BestEffort"), pods, cheap, "[pods:1]"},
		"BestEffort, with requests":    {scoped("BestEffort"), pods, pod(nil), "[]"},
		"NotBestEffort":                {scoped("NotBestEffort"), pods, pod(nil), "[pods:1]"},
		"two scopes, one of which":     {scoped("NotBestEffort", "Terminating"), pods, pod(nil), "[]"},
		"affinity across namespaces":   {scoped("CrossNamespacePodAffinity"), pods, across, "[pods:1]"},
		"affinity within":              {scoped("CrossNamespacePodAffinity"), pods, pod(nil), "[]"},
		"In":                           {ofClass("In", "important"), pods, important, "[pods:1]"},
		"In, of another class":         {ofClass("In", "other"), pods, important, "[]"},
		"NotIn, of no class":           {ofClass("NotIn", "other"), pods, pod(nil), "[pods:1]"},
		"Exists":                       {ofClass("Exists"), pods, important, "[pods:1]"},
		"Exists, of no class":          {ofClass("Exists"), pods, pod(nil), "[]"},
		"DoesNotExist, of no class":    {ofClass("DoesNotExist"), pods, pod(nil), "[pods:1]"},
	} {
		got, err := Of(c.of, c.obj).Use(c.quota)
		if err != nil || said(got) != c.want {
			t.Errorf("%s: got %s, %v, want %s", name, said(got), err, c.want)
		}
	}
}

func TestChange(t *testing.T) {
	q := anything("pods", "cpu")
	Restart(q)
	for _, step := range []struct {
		before, after  corev1.ResourceList
		changed, freed bool
		want           string
	}{
		{nil, amounts("pods", "1", "cpu", "500m"), true, false, "[cpu:500m pods:1]"},
		{amounts("pods", "1", "cpu", "500m"), amounts("pods", "1", "cpu", "500m"), false, false, "[cpu:500m pods:1]"},
		{amounts("pods", "1", "cpu", "500m"), amounts("pods", "1", "cpu", "2"), true, false, "[cpu:2 pods:1]"},
		{amounts("pods", "1", "cpu", "2"), nil, true, true, "[cpu:0 pods:0]"},
	} {
		changed, freed := Change(q, step.before, step.after)
		if changed != step.changed || freed != step.freed || said(q.Status.Used) != step.want {
			t.Errorf("got %v, %v, %s, want %+v", changed, freed, said(q.Status.Used), step)
		}
	}
}

// A pod that shows one of a cluster uses nothing of this machine, but is an object.
func TestUseOfAClustersPod(t *testing.T) {
	shown := pod(func(p *corev1.Pod) { p.Spec.NodeName, p.Spec.SchedulerName = "prod", clusters.Scheduler("prod") })
	used, err := Of(schema.GroupResource{Resource: "pods"}, shown).Use(anything("pods", "count/pods", "cpu", "limits.cpu"))
	if err != nil || said(used) != "[count/pods:1]" {
		t.Errorf("%s, %v", said(used), err)
	}
	if err := specifies([]corev1.ResourceName{"memory"}, shown); err != nil {
		t.Error(err)
	}
}
