package control_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/requests"
	"github.com/jobd/jobd/runtime/simulated"
	"github.com/jobd/jobd/store"
)

// adversaries make what somebody would write who wants a pass to take long: objects with n of something, as far as the API
// takes them.
var adversaries = map[string]func(n int) []objects.Object{
	"labels": onJob(func(j *batchv1.Job, n int) { j.Spec.Template.Labels = numbered("l", n) }),
	"annotations": onJob(func(j *batchv1.Job, n int) {
		maps.Copy(j.Spec.Template.Annotations, map[string]string{"a": strings.Repeat("x", 100*n)})
	}),
	"env": onJob(func(j *batchv1.Job, n int) {
		for i := range n {
			j.Spec.Template.Spec.Containers[0].Env = append(
				j.Spec.Template.Spec.Containers[0].Env,
				corev1.EnvVar{Name: fmt.Sprint("E", i), Value: fmt.Sprintf("$(E%d)", i-1)},
			)
		}
	}),
	"volumes": onJob(func(j *batchv1.Job, n int) {
		for i := range n {
			j.Spec.Template.Spec.Volumes = append(j.Spec.Template.Spec.Volumes, corev1.Volume{Name: fmt.Sprint("v", i), VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: fmt.Sprint("c", i)}}}})
		}
	}),
	"claims": onJob(func(j *batchv1.Job, n int) {
		for i := range n {
			j.Spec.Template.Spec.Volumes = append(j.Spec.Template.Spec.Volumes, corev1.Volume{Name: fmt.Sprint("v", i), VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprint("c", i)}}})
		}
	}),
	"volumes of pods' own": onJob(func(j *batchv1.Job, n int) {
		for i := range n {
			template := &corev1.PersistentVolumeClaimTemplate{
				Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}},
			}
			template.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}
			j.Spec.Template.Spec.Volumes = append(j.Spec.Template.Spec.Volumes, corev1.Volume{Name: fmt.Sprint("v", i), VolumeSource: corev1.VolumeSource{
				Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: template}}})
		}
	}),
	"containers": onJob(func(j *batchv1.Job, n int) {
		for i := range n / 8 { // a pod may have 256
			c := *j.Spec.Template.Spec.Containers[0].DeepCopy()
			c.Name = fmt.Sprint("c", i)
			j.Spec.Template.Spec.Containers = append(j.Spec.Template.Spec.Containers, c)
		}
	}),
	"resources": onJob(func(j *batchv1.Job, n int) {
		list := corev1.ResourceList{}
		for i := range n {
			list[corev1.ResourceName(fmt.Sprint("example.com/r", i))] = resource.MustParse("1")
		}
		j.Spec.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list, Limits: list}
	}),
	"ports": onJob(func(j *batchv1.Job, n int) {
		for i := range n {
			j.Spec.Template.Spec.Containers[0].Ports = append(
				j.Spec.Template.Spec.Containers[0].Ports,
				corev1.ContainerPort{HostPort: int32(i + 1), ContainerPort: int32(i + 1), HostIP: "127.0.0.1"},
			)
		}
	}),
	"tolerations": onJob(func(j *batchv1.Job, n int) {
		for i := range n {
			j.Spec.Template.Spec.Tolerations = append(
				j.Spec.Template.Spec.Tolerations, corev1.Toleration{Key: fmt.Sprint("t", i), Operator: corev1.TolerationOpExists},
			)
		}
	}),
	"node selector": onJob(func(j *batchv1.Job, n int) { j.Spec.Template.Spec.NodeSelector = numbered("l", n) }),
	"node affinity": onJob(func(j *batchv1.Job, n int) {
		var terms []corev1.NodeSelectorTerm
		for i := range n {
			terms = append(
				terms,
				corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: fmt.Sprint("k", i), Operator: corev1.NodeSelectorOpExists}}},
			)
		}
		j.Spec.Template.Spec.Affinity = &corev1.Affinity{
			NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}},
		}
	}),
	"anti-affinity": onJob(func(j *batchv1.Job, n int) {
		anti := &corev1.PodAntiAffinity{}
		for i := range n {
			anti.RequiredDuringSchedulingIgnoredDuringExecution = append(anti.RequiredDuringSchedulingIgnoredDuringExecution, corev1.PodAffinityTerm{
				TopologyKey: corev1.LabelHostname, NamespaceSelector: &metav1.LabelSelector{},
				LabelSelector: &metav1.LabelSelector{
					MatchExpressions: []metav1.LabelSelectorRequirement{{Key: fmt.Sprint("k", i), Operator: metav1.LabelSelectorOpDoesNotExist}},
				}})
		}
		j.Spec.Template.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: anti}
	}),
	"spread": onJob(func(j *batchv1.Job, n int) {
		for i := range n {
			j.Spec.Template.Spec.TopologySpreadConstraints = append(j.Spec.Template.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
				MaxSkew: 1, TopologyKey: fmt.Sprint("k", i), WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{}})
		}
	}),
	"gates": onPods(1, func(p *corev1.Pod, n int) {
		for i := range n {
			p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: fmt.Sprint("g", i)})
		}
	}),
	"owners": onPods(20, func(p *corev1.Pod, n int) { p.OwnerReferences = owners(n) }),
	"finalizers": onPods(20, func(p *corev1.Pod, n int) {
		for i := range n {
			p.Finalizers = append(p.Finalizers, fmt.Sprint("example.com/f", i))
		}
	}),
	"conditions": onPods(5, func(p *corev1.Pod, n int) {
		for i := range n {
			p.Spec.ReadinessGates = append(
				p.Spec.ReadinessGates,
				corev1.PodReadinessGate{ConditionType: corev1.PodConditionType(fmt.Sprint("example.com/c", i))},
			)
		}
	}),
	"completed indexes": onJob(func(j *batchv1.Job, n int) {
		var list strings.Builder
		for i := range n {
			fmt.Fprintf(&list, "%d,", 2*i)
		}
		j.Spec.CompletionMode, j.Spec.Completions = ptr.To(batchv1.IndexedCompletion), ptr.To(int32(2*n+1))
		j.Status.CompletedIndexes, j.Status.Succeeded = strings.TrimSuffix(list.String(), ","), int32(n)
	}),
	"failed indexes": onJob(func(j *batchv1.Job, n int) {
		j.Spec.CompletionMode, j.Spec.Completions, j.Spec.Parallelism = ptr.To(batchv1.IndexedCompletion), ptr.To(int32(n)), ptr.To(int32(n))
		j.Spec.BackoffLimitPerIndex, j.Spec.BackoffLimit = ptr.To[int32](0), nil
		j.Spec.Template.Annotations[simulated.ExitCode] = "1"
		j.Spec.Template.Annotations[simulated.Duration] = "0s"
	}),
	"rules": onJob(func(j *batchv1.Job, n int) {
		j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{}
		for i := range min(n, 20) {
			var codes []int32
			for c := range int32(min(n, 254)) {
				codes = append(codes, c+1)
			}
			j.Spec.PodFailurePolicy.Rules = append(j.Spec.PodFailurePolicy.Rules, batchv1.PodFailurePolicyRule{Action: batchv1.PodFailurePolicyActionIgnore,
				OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
					Operator: batchv1.PodFailurePolicyOnExitCodesOpNotIn, Values: codes, ContainerName: ptr.To("c"),
				}})
			_ = i
		}
	}),
	"succeeded indexes": onJob(func(j *batchv1.Job, n int) {
		var list strings.Builder
		for i := range n {
			fmt.Fprintf(&list, "%d,", 2*i)
		}
		j.Spec.CompletionMode, j.Spec.Completions, j.Spec.Parallelism = ptr.To(batchv1.IndexedCompletion), ptr.To(int32(2*n+1)), ptr.To[int32](20)
		j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{}
		for range 20 {
			j.Spec.SuccessPolicy.Rules = append(
				j.Spec.SuccessPolicy.Rules,
				batchv1.SuccessPolicyRule{SucceededIndexes: ptr.To(strings.TrimSuffix(list.String(), ",")), SucceededCount: ptr.To(int32(n))},
			)
		}
	}),
	"missed times of CronJobs": func(n int) (all []objects.Object) {
		for i := range max(1, n/100) { // each takes a hundred Jobs
			cj := onCronJob(func(*batchv1.CronJob, int) {})(0)[0].(*batchv1.CronJob)
			cj.Name, cj.UID = fmt.Sprint("c", i), uuid.NewUUID()
			cj.Annotations = map[string]string{
				batch.MissedAnnotation: "all", batch.MissedMaxAnnotation: "100", batch.JitterAnnotation: "24h",
				batch.SchedulesAnnotation: "0 0 29 2 *; 59 23 31 12 *; 0 0 30 2 *; 0 0 1 1 *; 0 0 2 1 *; 0 0 3 1 *; 0 0 4 1 *; 0 0 5 1 *; 0 0 6 1 *; * * 7 1 *",
			}
			cj.Spec.TimeZone = ptr.To("Pacific/Apia")
			cj.Status.LastScheduleTime = ptr.To(metav1.NewTime(time.Time{}.Add(time.Hour))) // as a client can write it
			all = append(all, cj)
		}
		return all
	},
	"Jobs of a JobSet": onJobSet(func(js *jobsetv1.JobSet, n int) {
		js.Spec.ReplicatedJobs[0].Replicas = int32(min(n, jobset.MaxJobs))
	}),
	"groups of a JobSet": onJobSet(func(js *jobsetv1.JobSet, n int) {
		one := js.Spec.ReplicatedJobs[0]
		js.Spec.ReplicatedJobs = nil
		for i := range min(n/2, 200) {
			group := *one.DeepCopy()
			group.Name = fmt.Sprint("g", i)
			for k := max(0, i-5); k < i; k++ {
				group.DependsOn = append(group.DependsOn, jobsetv1.DependsOn{Name: fmt.Sprint("g", k), Status: jobsetv1.DependencyReady})
			}
			js.Spec.ReplicatedJobs = append(js.Spec.ReplicatedJobs, group)
		}
	}),
	"failures of a JobSet": onJobSet(func(js *jobsetv1.JobSet, n int) {
		group := &js.Spec.ReplicatedJobs[0]
		group.Replicas = int32(n / 10)
		group.Template.Spec.Template.Annotations = map[string]string{simulated.Duration: "1s", simulated.ExitCode: "1"}
		group.Template.Spec.BackoffLimit = ptr.To[int32](0)
		js.Spec.FailurePolicy = &jobsetv1.FailurePolicy{MaxRestarts: 5}
		for i := range min(n/10, 99) {
			js.Spec.FailurePolicy.Rules = append(js.Spec.FailurePolicy.Rules, jobsetv1.FailurePolicyRule{
				Name: fmt.Sprint("r", i), Action: jobsetv1.FailJobSet, OnJobFailureMessagePatterns: []string{fmt.Sprintf("(.*a.*){5}x%d", i)},
			})
		}
	}),
	"active Jobs of a CronJob": onCronJob(func(cj *batchv1.CronJob, n int) {
		for i := range n {
			cj.Status.Active = append(cj.Status.Active, corev1.ObjectReference{Kind: "Job", Name: fmt.Sprint("j", i), UID: types.UID(fmt.Sprint(i))})
		}
	}),
	"Jobs of a CronJob": func(n int) (all []objects.Object) {
		all = onCronJob(func(cj *batchv1.CronJob, _ int) { cj.Spec.Schedule = "* * * * *" })(n)
		for i := range n / 10 {
			j := onJob(func(*batchv1.Job, int) {})(0)[0].(*batchv1.Job)
			j.Name, j.Spec.Parallelism = fmt.Sprint("made-", i), ptr.To[int32](0)
			j.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(all[0], batchv1.SchemeGroupVersion.WithKind("CronJob"))}
			all = append(all, j)
		}
		return all
	},
	"every minute for ages": onCronJob(func(cj *batchv1.CronJob, n int) {
		cj.Spec.Schedule = "* * * * *"
		cj.Status.LastScheduleTime = &metav1.Time{Time: time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)}
		cj.Annotations = map[string]string{"a": strings.Repeat("x", n)}
	}),
	"schedules without an end": func(n int) (all []objects.Object) {
		for i := range n / 10 {
			all = append(all, onCronJob(func(cj *batchv1.CronJob, _ int) {
				cj.Name = fmt.Sprint("c", i)
				cj.Spec.Schedule, cj.Spec.TimeZone = []string{", * * * *", "0 0 31 2 *", "0 12 30 12 *"}[i%3], ptr.To("Pacific/Apia")
				cj.Status.LastScheduleTime = &metav1.Time{Time: time.Date(1999, 12, 1, 0, 0, 0, 0, time.UTC)}
			})(1)...)
		}
		return all
	},
	"selectors of Jobs": func(n int) (all []objects.Object) {
		for i := range n / 20 {
			j := onJob(func(*batchv1.Job, int) {})(0)[0].(*batchv1.Job)
			j.Name = fmt.Sprint("j", i)
			j.Spec.Parallelism, j.Spec.ManualSelector = ptr.To[int32](0), ptr.To(true)
			j.Spec.Template.Labels = map[string]string{"job": j.Name}
			j.Spec.Selector = &metav1.LabelSelector{MatchLabels: j.Spec.Template.Labels}
			for k := range 20 {
				j.Spec.Selector.MatchExpressions = append(
					j.Spec.Selector.MatchExpressions,
					metav1.LabelSelectorRequirement{Key: fmt.Sprint("k", k), Operator: metav1.LabelSelectorOpDoesNotExist},
				)
			}
			all = append(all, j)
		}
		return append(all, onPods(40, func(*corev1.Pod, int) {})(0)...)
	},
	"Jobs that wait for each other": func(n int) (all []objects.Object) {
		for i := range n {
			j := onJob(func(*batchv1.Job, int) {})(0)[0].(*batchv1.Job)
			j.Name, j.Spec.Suspend = fmt.Sprint("waits", i), ptr.To(true)
			var needs []string // none of them ends, some are never there, and many wait for the same
			for k := range 32 {
				needs = append(needs, fmt.Sprintf("waits%d:any", (i+k*k+1)%(n+10)))
			}
			slices.Sort(needs)
			j.Annotations = map[string]string{batch.AfterAnnotation: strings.Join(slices.Compact(needs), ",")}
			all = append(all, j)
		}
		return all
	},
	"Jobs of a group": func(n int) (all []objects.Object) {
		for i := range n {
			j := onJob(func(*batchv1.Job, int) {})(0)[0].(*batchv1.Job)
			j.Name = fmt.Sprint("member", i)
			j.Annotations = map[string]string{
				core.ConcurrencyGroupAnnotation: fmt.Sprint("g", i%3), core.ConcurrencyLimitAnnotation: fmt.Sprint(1 + i%100),
				core.ConcurrencyPolicyAnnotation: []string{core.QueueConcurrent, core.ReplaceConcurrent, core.ForbidConcurrent}[i/3%3],
			}
			all = append(all, j)
		}
		return all
	},
	"paused Jobs": func(n int) (all []objects.Object) {
		for i := range n / 4 {
			j := onJob(func(*batchv1.Job, int) {})(0)[0].(*batchv1.Job)
			j.Name, j.Spec.Parallelism, j.Spec.Completions = fmt.Sprint("paused", i), ptr.To[int32](2), ptr.To[int32](2)
			j.Labels, j.Annotations = map[string]string{"pause": "while-it-runs"}, map[string]string{}
			if i%2 == 0 {
				j.Labels["pause"] = "before-it-begins"
				j.Annotations[batch.PausedAnnotation] = "2000-01-01T00:00:00Z"
			}
			if i%3 == 0 {
				j.Annotations[core.ConcurrencyGroupAnnotation], j.Annotations[core.ConcurrencyLimitAnnotation] = "g", "1000"
			}
			all = append(all, j)
		}
		return all
	},
	"a large Job that is paused": onJob(func(j *batchv1.Job, n int) {
		j.Labels, j.Spec.Parallelism, j.Spec.Completions = map[string]string{"pause": "while-it-runs"}, ptr.To(int32(n)), ptr.To(int32(n))
	}),
	"budgets": func(n int) (all []objects.Object) {
		for i := range n / 5 {
			all = append(all, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("b", i)}, Spec: policyv1.PodDisruptionBudgetSpec{
				MinAvailable: ptr.To(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{
					MatchExpressions: []metav1.LabelSelectorRequirement{{Key: fmt.Sprint("k", i), Operator: metav1.LabelSelectorOpDoesNotExist}},
				}}})
		}
		return append(all, onPods(20, func(*corev1.Pod, int) {})(0)...)
	},
	"quotas": func(n int) (all []objects.Object) {
		for i := range min(n/20, 20) { // each write asks all of a namespace, and only its administrator makes them
			all = append(
				all,
				&corev1.ResourceQuota{
					ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("q", i)},
					Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": resource.MustParse("1000")}},
				},
			)
		}
		return append(all, onPods(20, func(*corev1.Pod, int) {})(0)...)
	},
	"gangs": func(n int) (all []objects.Object) {
		group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "g"}}
		group.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: 2}
		all = append(all, group)
		return append(all, onPods(n/5, func(p *corev1.Pod, _ int) {
			p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("g")}
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
				"cpu": resource.MustParse("3"), "memory": *resource.NewQuantity(int64(len(p.Name)), resource.DecimalSI),
			}
		})(n)...)
	},
}

func numbered(prefix string, n int) map[string]string {
	all := map[string]string{}
	for i := range n {
		all[fmt.Sprint(prefix, i)] = fmt.Sprint(i)
	}
	return all
}

func owners(n int) (all []metav1.OwnerReference) {
	for i := range n {
		all = append(
			all,
			metav1.OwnerReference{
				APIVersion: "v1", Kind: "ConfigMap", Name: fmt.Sprint("c", i), UID: types.UID(fmt.Sprint("gone", i)),
				BlockOwnerDeletion: ptr.To(true),
			},
		)
	}
	return all
}

func onJob(edit func(*batchv1.Job, int)) func(int) []objects.Object {
	return func(n int) []objects.Object {
		j := controltest.Simulate("j", "1h", "0")
		j.Spec.Parallelism, j.Spec.Completions = ptr.To[int32](5), ptr.To[int32](5)
		j.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "busybox"}}
		j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
		edit(j, n)
		return []objects.Object{j}
	}
}

func onPods(pods int, edit func(*corev1.Pod, int)) func(int) []objects.Object {
	return func(n int) (all []objects.Object) {
		for i := range pods {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i), Annotations: map[string]string{simulated.Duration: "1h"}}}
			p.Spec.Containers, p.Spec.RestartPolicy = []corev1.Container{{Name: "c", Image: "busybox"}}, corev1.RestartPolicyNever
			edit(p, n)
			all = append(all, p)
		}
		return all
	}
}

func onCronJob(edit func(*batchv1.CronJob, int)) func(int) []objects.Object {
	return func(n int) []objects.Object {
		cj := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: uuid.NewUUID()}}
		cj.Spec.Schedule = "0 0 1 1 *"
		cj.Spec.JobTemplate.Spec = onJob(func(*batchv1.Job, int) {})(0)[0].(*batchv1.Job).Spec
		edit(cj, n)
		return []objects.Object{cj}
	}
}

func onJobSet(edit func(*jobsetv1.JobSet, int)) func(int) []objects.Object {
	return func(n int) []objects.Object {
		js := &jobsetv1.JobSet{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
		js.Spec.ReplicatedJobs = []jobsetv1.ReplicatedJob{{Name: "a"}}
		template := &js.Spec.ReplicatedJobs[0].Template.Spec.Template
		template.Annotations = map[string]string{simulated.Duration: "1h"}
		template.Spec.Containers, template.Spec.RestartPolicy = []corev1.Container{{Name: "c", Image: "busybox"}}, corev1.RestartPolicyNever
		edit(js, n)
		return []objects.Object{js}
	}
}

// submit does what the API does with a new object, and then with its status, and returns how many bytes are stored; false if
// it is refused.
func (w *world) submit(obj objects.Object) (int, bool) {
	w.T.Helper()
	for resource, k := range objects.Served() {
		if reflect.TypeOf(k.New()) != reflect.TypeOf(obj) {
			continue
		}
		obj.SetNamespace("default")
		obj.SetCreationTimestamp(metav1.Now())
		if obj.GetUID() == "" {
			obj.SetUID(uuid.NewUUID())
		}
		status := reflect.Value{}
		if field := reflect.ValueOf(obj).Elem().FieldByName("Status"); field.IsValid() {
			status = reflect.ValueOf(obj.DeepCopyObject()).Elem().FieldByName("Status")
		}
		if k.Default != nil {
			k.Default(obj)
		}
		k.Strategy.PrepareForCreate(w.T.Context(), obj)
		if errs := k.Strategy.Validate(w.T.Context(), obj); len(errs) > 0 {
			w.T.Logf("%s is refused: %.200v", obj.GetName(), errs[0])
			return 0, false
		}
		if status.IsValid() && resource != objects.Pods && !status.IsZero() {
			reflect.ValueOf(obj).Elem().FieldByName("Status").Set(status)
		}
		value, err := scheme.Encode(obj)
		if err != nil {
			w.T.Fatal(err)
		}
		if len(value) > 3<<20 {
			return 0, false
		}
		w.Put(store.Key(resource, "default", obj.GetName()), obj)
		return len(value), true
	}
	w.T.Fatalf("no kind for %T", obj)
	return 0, false
}

// expense runs a world with what adversaries make, through a change of its clock and a restart of the daemon, and returns how
// many bytes were allocated, and how many objects and bytes there were in the end. It fails when that takes a minute of CPU.
func expense(t *testing.T, of []objects.Object) (allocated, stored int) {
	done := make(chan struct{})
	defer close(done)
	begin := cpu()
	go func() { // outside of the bubble
		for range time.Tick(time.Second) {
			select {
			case <-done:
				return
			default:
			}
			if cpu()-begin > 2*time.Minute {
				panic("a pass has no end")
			}
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.Allocatable = requests.Resources{"cpu": 2000, "memory": 1 << 30}
		w.Stop()
		w.Start()
		defer w.End()
		synctest.Wait()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for _, obj := range of {
			w.submit(obj)
		}
		time.Sleep(45 * time.Second)
		for range 2 {
			w.pauseAll(of)
		}
		time.Sleep(45 * time.Second)
		w.Stop()
		w.Start()
		time.Sleep(2 * time.Second)
		w.pauseAll(of)
		runtime.ReadMemStats(&after)
		allocated = int(after.TotalAlloc - before.TotalAlloc)
		if err := w.Store.View(func(s *store.Snapshot) error {
			s.Range("", "", func(o store.Object) bool { stored += len(o.Value); return true })
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	})
	return allocated, stored
}

// pauseAll pauses the Jobs that ask for that by their label, or continues them, all at once.
func (w *world) pauseAll(of []objects.Object) {
	w.T.Helper()
	for _, obj := range of {
		if obj.GetLabels()["pause"] == "" {
			continue
		}
		if j := w.Job(obj.GetName()); j != nil {
			annotations := maps.Clone(j.Annotations)
			if delete(annotations, batch.PausedAnnotation); !batch.Paused(j.Annotations) {
				metav1.SetMetaDataAnnotation(&j.ObjectMeta, batch.PausedAnnotation, time.Now().Format(time.RFC3339Nano))
			} else {
				j.Annotations = annotations
			}
			w.Put(objects.Key(objects.Jobs, j), j)
		}
	}
	synctest.Wait()
}

// cpu returns how much CPU time the process has used.
func cpu() time.Duration {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// linear fails if twice as much costs much more than twice.
func linear(t *testing.T, make func(n int) []objects.Object, n int) {
	t.Helper()
	const slack = 64 << 20
	begin := cpu()
	once, _ := expense(t, make(n))
	half := cpu()
	twice, stored := expense(t, make(2*n))
	ofOnce, ofTwice := half-begin, cpu()-half
	t.Logf("%d: %d MB allocated, %v of CPU; %d: %d MB, %v, %d kB are stored", n, once>>20, ofOnce, 2*n, twice>>20, ofTwice, stored>>10)
	if twice > 3*once+slack || ofTwice > 4*ofOnce+5*time.Second {
		t.Errorf("%d takes %d MB and %v, and %d takes %d and %v", n, once>>20, ofOnce, 2*n, twice>>20, ofTwice)
	}
}

func TestPassesCostWhatTheyAreGiven(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(adversaries)) {
		t.Run(name, func(t *testing.T) {
			before := cpu()
			n := 1000
			if testing.Short() {
				n = 100
			}
			linear(t, adversaries[name], n)
			t.Logf("%v of CPU", cpu()-before)
		})
	}
}

// TestPassesOfTwoAdversaries mixes adversaries: those of the two quadratic costs that this has found, and with JOBD_PASSES=1h all
// pairs of them, again and again for so long, each time as large as JOBD_PASSES_SEED has it. It is no fuzz test, since coverage
// tells nothing of pairs, and the fuzzer kills what takes ten seconds.
func TestPassesOfTwoAdversaries(t *testing.T) {
	mix := func(a, b string, n int) {
		t.Run(fmt.Sprint(a, "+", b, "/", n), func(t *testing.T) {
			linear(t, func(n int) (all []objects.Object) {
				for i, name := range []string{a, b} {
					for _, obj := range adversaries[name](n) {
						obj.SetName(fmt.Sprint(obj.GetName(), "-", i))
						all = append(all, obj)
					}
				}
				return all
			}, n)
		})
	}
	mix("quotas", "resources", 256) // each quota asked anew what a pod uses
	mix("budgets", "gangs", 403)    // each budget looked at all pods whenever one had changed
	long := os.Getenv("JOBD_PASSES")
	if long == "" {
		return
	}
	d, err := time.ParseDuration(long)
	if err != nil {
		t.Fatal(err)
	}
	seed := time.Now().UnixNano()
	if given := os.Getenv("JOBD_PASSES_SEED"); given != "" {
		if seed, err = strconv.ParseInt(given, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("JOBD_PASSES_SEED=%d", seed)
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	names := slices.Sorted(maps.Keys(adversaries))
	type pair struct{ a, b string }
	var pairs []pair
	for i, a := range names {
		for _, b := range names[i:] {
			pairs = append(pairs, pair{a, b})
		}
	}
	mixed := 0
	for end := time.Now().Add(d); ; {
		random.Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
		for _, p := range pairs {
			if time.Now().After(end) || t.Failed() {
				t.Logf("%d mixtures, of %d pairs", mixed, len(pairs))
				return
			}
			mix(p.a, p.b, 20+random.IntN(500))
			mixed++
		}
	}
}
