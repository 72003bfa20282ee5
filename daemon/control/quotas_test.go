package control_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// Jobs that a quota has refused go on as soon as something is freed: never more pods at a time than it allows, and no waiting
// for the delays of refused creations.
func TestAQuotaSharedByJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		w.Limit("two", corev1.ResourceList{corev1.ResourcePods: resource.MustParse("2"), "count/pods": resource.MustParse("100")})
		const jobs, pods, seconds = 4, 3, 10
		for i := range jobs {
			j := controltest.Simulate(fmt.Sprint("j", i), fmt.Sprint(seconds, "s"), "0")
			j.Spec.Completions, j.Spec.Parallelism = ptr.To[int32](pods), ptr.To[int32](pods)
			w.Create(j)
		}
		most := 0
		for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
			synctest.Wait()
			active := 0
			for _, p := range w.Pods() {
				if p.Status.Phase == corev1.PodPending || p.Status.Phase == corev1.PodRunning {
					active++
				}
			}
			if used := w.Used("two", corev1.ResourcePods); used != fmt.Sprint(active) {
				t.Fatalf("%s are used, and %d pods are active", used, active)
			}
			most = max(most, active)
		}
		if most != 2 {
			t.Errorf("%d pods at a time", most)
		}
		var last time.Time
		for i := range jobs {
			j := w.Job(fmt.Sprint("j", i))
			if !objects.Finished(j) || j.Status.Succeeded != pods {
				t.Fatalf("%s: %+v", j.Name, j.Status)
			}
			if j.Status.CompletionTime.After(last) {
				last = j.Status.CompletionTime.Time
			}
		}
		// Twelve pods, two at a time: six times ten seconds and what the simulated runtime takes.
		first := w.Job("j0").CreationTimestamp.Time
		if took := last.Sub(first); took > 90*time.Second {
			t.Errorf("all took %s", took)
		}
		if used := w.Used("two", "count/pods"); used != fmt.Sprint(jobs*pods) {
			t.Errorf("%s pods are there", used)
		}
	})
}

func TestAQuotaThatIsRaised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		w.Limit("none", corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")})
		w.Create(controltest.Simulate("j", "1s", "0"))
		time.Sleep(10 * time.Minute)
		said := ""
		if err := w.Store.View(func(s *store.Snapshot) error {
			return objects.Each(s, objects.Events, func(_ string, e *corev1.Event) error {
				if e.Reason == "FailedCreate" {
					said = e.Message
				}
				return nil
			})
		}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(said, `Error creating: pods "j-`) ||
			!strings.HasSuffix(said, `" is forbidden: exceeded quota: none, requested: pods=1, used: pods=0, limited: pods=0`) {
			t.Errorf("said %q", said)
		}
		w.Limit("none", corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")})
		time.Sleep(5 * time.Second)
		if !objects.Finished(w.Job("j")) {
			t.Error("the Job has not gone on at once")
		}
	})
}

// What pods that have ended keep goes on being used, and others wait for it.
func TestAQuotaCountsFilesThatAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		w.Limit("files", corev1.ResourceList{corev1.ResourceRequestsEphemeralStorage: resource.MustParse("3Gi"), corev1.ResourcePods: resource.MustParse("10")})
		keeping := func(name string) *batchv1.Job {
			j := controltest.Simulate(name, "1s", "0")
			j.Spec.Template.Annotations[core.KeepFilesAnnotation] = "1h"
			j.Spec.Completions, j.Spec.Parallelism = ptr.To[int32](1), ptr.To[int32](1)
			j.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "busybox", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("2Gi")},
			}}}
			return j
		}
		w.Create(keeping("first"))
		time.Sleep(time.Minute)
		if files, pods := w.Used("files", corev1.ResourceRequestsEphemeralStorage), w.Used("files", corev1.ResourcePods); files != "2Gi" || pods != "0" {
			t.Errorf("used are %s and %s pods", files, pods)
		}
		w.Create(keeping("second"))
		time.Sleep(50 * time.Minute)
		if n := len(w.Pods()); n != 1 {
			t.Errorf("%d pods while there is no room", n)
		}
		time.Sleep(10 * time.Minute)
		if j := w.Job("second"); !objects.Finished(j) {
			t.Errorf("it still waits when there is room: %+v", j.Status)
		}
		time.Sleep(time.Hour)
		if files := w.Used("files", corev1.ResourceRequestsEphemeralStorage); files != "0" {
			t.Errorf("used are %s when all files have gone", files)
		}
	})
}

// What a client writes into the status of a quota is not believed: it is counted again at once, as by a cluster's controller.
func TestAQuotaWhoseStatusSomebodyWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		w.Limit("two", corev1.ResourceList{corev1.ResourcePods: resource.MustParse("2")})
		synctest.Wait()
		key, q := store.Key(storage.ResourceQuotaResource, metav1.NamespaceDefault, "two"), &corev1.ResourceQuota{}
		if !w.Read(key, q) {
			t.Fatal("the quota is gone")
		}
		q.Status.Used = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("2")}
		q.Status.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
		w.Put(key, q)
		synctest.Wait()
		if used := w.Used("two", corev1.ResourcePods); used != "0" {
			t.Errorf("%s are used", used)
		}
		w.Create(controltest.Simulate("j", "1s", "0"))
		time.Sleep(time.Minute)
		if !objects.Finished(w.Job("j")) {
			t.Error("the Job does not run")
		}
	})
}

// Gangs that a quota holds up create all of their pods or none: parts of several, none of which can start, would wait for one another for
// ever. What is larger than the quota holds up nobody, and one that may start with fewer does.
func TestGangsShareAQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		w.Limit("four", corev1.ResourceList{"requests.cpu": resource.MustParse("4")})
		for i := range 3 {
			j := controltest.Simulate(fmt.Sprint("small", i), fmt.Sprintf("%ds", 60+i), "0")
			j.Spec.Template.Spec.Containers = controltest.Asking("1")
			w.Create(j)
		}
		time.Sleep(time.Second)
		large := ask(gangOf("large"), "1500m")
		w.Create(large)
		some := ask(gangOf("some"), "1500m")
		some.Spec.Scheduling.SchedulingPolicy.Gang.MinCount = ptr.To[int32](2)
		w.Create(some)
		names := []string{"some"}
		for i := range 4 {
			names = append(names, fmt.Sprint("gang", i))
			w.Create(ask(gangOf(names[i+1]), "1"))
			time.Sleep(time.Second)
		}
		for range 300 {
			time.Sleep(time.Second)
			synctest.Wait()
			pods := map[string]int{}
			for _, p := range w.Pods() {
				if p.Spec.NodeName == "" {
					pods[p.Labels[batchv1.JobNameLabel]]++
				}
			}
			for name, n := range pods {
				if name != "some" || n > 1 {
					t.Fatalf("%d pods of %s wait", n, name)
				}
			}
		}
		for _, name := range names {
			if j := w.Job(name); !objects.Finished(j) {
				t.Errorf("%s: %+v", name, j.Status)
			}
		}
		if j := w.Job("large"); j.Status.Active != 0 {
			t.Errorf("%d pods of a gang that is larger than the quota", j.Status.Active)
		}
		if said := strings.Join(w.Events("large"), "\n"); !strings.Contains(said, "3 start together: exceeded quota: four, requested: requests.cpu=4500m") {
			t.Errorf("events: %s", said)
		}
	})
}
