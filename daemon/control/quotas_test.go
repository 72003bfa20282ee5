package control

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
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// quotas of a world are written, and read as they are once everything that is due has happened.
func (w *world) limit(name string, hard corev1.ResourceList) {
	w.t.Helper()
	w.put(store.Key("resourcequotas", "default", name), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.ResourceQuotaSpec{Hard: hard},
	})
}

func (w *world) used(name string, of corev1.ResourceName) string {
	w.t.Helper()
	synctest.Wait()
	q := &corev1.ResourceQuota{}
	if err := w.store.View(func(s *store.Snapshot) error {
		_, err := objects.Read(s, store.Key("resourcequotas", "default", name), q)
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	used := q.Status.Used[of]
	return used.String()
}

// Jobs that a quota has refused go on as soon as something is freed: never more pods at a time than it allows, and no waiting
// for the delays of refused creations.
func TestAQuotaSharedByJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		w.limit("two", corev1.ResourceList{corev1.ResourcePods: resource.MustParse("2"), "count/pods": resource.MustParse("100")})
		const jobs, pods, seconds = 4, 3, 10
		for i := range jobs {
			j := simulate(fmt.Sprint("j", i), fmt.Sprint(seconds, "s"), "0")
			j.Spec.Completions, j.Spec.Parallelism = ptr.To[int32](pods), ptr.To[int32](pods)
			w.create(j)
		}
		most := 0
		for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
			synctest.Wait()
			active := 0
			for _, p := range w.pods() {
				if p.Status.Phase == corev1.PodPending || p.Status.Phase == corev1.PodRunning {
					active++
				}
			}
			if used := w.used("two", corev1.ResourcePods); used != fmt.Sprint(active) {
				t.Fatalf("%s are used, and %d pods are active", used, active)
			}
			most = max(most, active)
		}
		if most != 2 {
			t.Errorf("%d pods at a time", most)
		}
		var last time.Time
		for i := range jobs {
			j := w.job(fmt.Sprint("j", i))
			if !objects.Finished(j) || j.Status.Succeeded != pods {
				t.Fatalf("%s: %+v", j.Name, j.Status)
			}
			if j.Status.CompletionTime.After(last) {
				last = j.Status.CompletionTime.Time
			}
		}
		// Twelve pods, two at a time: six times ten seconds and what the simulated runtime takes.
		first := w.job("j0").CreationTimestamp.Time
		if took := last.Sub(first); took > 90*time.Second {
			t.Errorf("all took %s", took)
		}
		if used := w.used("two", "count/pods"); used != fmt.Sprint(jobs*pods) {
			t.Errorf("%s pods are there", used)
		}
	})
}

func TestAQuotaThatIsRaised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		w.limit("none", corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")})
		w.create(simulate("j", "1s", "0"))
		time.Sleep(10 * time.Minute)
		said := ""
		if err := w.store.View(func(s *store.Snapshot) error {
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
		w.limit("none", corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")})
		time.Sleep(5 * time.Second)
		if !objects.Finished(w.job("j")) {
			t.Error("the Job has not gone on at once")
		}
	})
}

// A CronJob whose Job is refused starts it once there is room.
func TestAQuotaForTheJobsOfACronJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		w.limit("jobs", corev1.ResourceList{"count/jobs.batch": resource.MustParse("0")})
		w.cron("c", "*/5 * * * *", "1s", func(*batchv1.CronJob) {})
		time.Sleep(6 * time.Minute)
		if n := w.used("jobs", "count/jobs.batch"); n != "0" {
			t.Fatalf("%s Jobs", n)
		}
		w.limit("jobs", corev1.ResourceList{"count/jobs.batch": resource.MustParse("1")})
		time.Sleep(20 * time.Second)
		if n := w.used("jobs", "count/jobs.batch"); n != "1" {
			t.Errorf("%s Jobs", n)
		}
	})
}

// What pods that have ended keep goes on being used, and others wait for it.
func TestAQuotaCountsFilesThatAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		w.limit("files", corev1.ResourceList{corev1.ResourceRequestsEphemeralStorage: resource.MustParse("3Gi"), corev1.ResourcePods: resource.MustParse("10")})
		keeping := func(name string) *batchv1.Job {
			j := simulate(name, "1s", "0")
			j.Spec.Template.Annotations[core.KeepFilesAnnotation] = "1h"
			j.Spec.Completions, j.Spec.Parallelism = ptr.To[int32](1), ptr.To[int32](1)
			j.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "busybox", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("2Gi")},
			}}}
			return j
		}
		w.create(keeping("first"))
		time.Sleep(time.Minute)
		if files, pods := w.used("files", corev1.ResourceRequestsEphemeralStorage), w.used("files", corev1.ResourcePods); files != "2Gi" || pods != "0" {
			t.Errorf("used are %s and %s pods", files, pods)
		}
		w.create(keeping("second"))
		time.Sleep(50 * time.Minute)
		if n := len(w.pods()); n != 1 {
			t.Errorf("%d pods while there is no room", n)
		}
		time.Sleep(10 * time.Minute)
		if j := w.job("second"); !objects.Finished(j) {
			t.Errorf("it still waits when there is room: %+v", j.Status)
		}
		time.Sleep(time.Hour)
		if files := w.used("files", corev1.ResourceRequestsEphemeralStorage); files != "0" {
			t.Errorf("used are %s when all files have gone", files)
		}
	})
}
