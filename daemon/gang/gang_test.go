package gang_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

const (
	workloads = "count/" + objects.Workloads
	groups    = "count/" + objects.PodGroups
)

// gang is a Job of three pods that start together.
func gang(name string) *batchv1.Job {
	j := controltest.Simulate(name, "10s", "0")
	j.Spec.Completions, j.Spec.Parallelism = ptr.To[int32](3), ptr.To[int32](3)
	j.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
	j.Spec.Scheduling = &batchv1.JobSchedulingConfiguration{SchedulingPolicy: &schedulingv1alpha3.WorkloadPodGroupSchedulingPolicy{
		Gang: &schedulingv1alpha3.WorkloadPodGroupGangSchedulingPolicy{},
	}}
	return j
}

// count returns how many objects there are of a resource.
func count(w *controltest.World, resource string) (n int) {
	w.T.Helper()
	synctest.Wait()
	if err := w.Store.View(func(s *store.Snapshot) error {
		s.Range(resource+"/", "", func(store.Object) bool { n++; return true })
		return nil
	}); err != nil {
		w.T.Fatal(err)
	}
	return n
}

// A ResourceQuota counts Workloads and PodGroups. When it allows no more of one, the Job says so and waits, and goes on when
// there is room.
func TestAQuotaOfGangs(t *testing.T) {
	for _, full := range []string{workloads, groups} {
		t.Run(full, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := controltest.New(t)
				defer w.End()
				limit := func(n string) {
					hard := corev1.ResourceList{workloads: resource.MustParse("5"), groups: resource.MustParse("5")}
					hard[corev1.ResourceName(full)] = resource.MustParse(n)
					w.Limit("gangs", hard)
				}
				limit("1")
				w.Create(gang("first"))
				time.Sleep(time.Second)
				w.Create(gang("second"))
				time.Sleep(10 * time.Minute)
				if used := w.Used("gangs", workloads) + " " + w.Used("gangs", groups); !objects.Finished(w.Job("first")) ||
					full == groups && used != "2 1" || full == workloads && used != "1 1" {
					t.Errorf("used are %s", used)
				}
				said := w.Events("second")
				if !slices.ContainsFunc(said, func(e string) bool {
					return strings.HasPrefix(e, "FailedCreate: Error creating: "+strings.TrimPrefix(full, "count/")+` "second-`) &&
						strings.HasSuffix(e, "is forbidden: exceeded quota: gangs, requested: "+full+"=1, used: "+full+"=1, limited: "+full+"=1")
				}) {
					t.Errorf("the Job says %q", said)
				}
				if n := len(w.Pods()); n != 3 {
					t.Errorf("%d pods, want those of the first Job", n)
				}
				w.Delete(store.Key(objects.Jobs, "default", "first"), w.Job("first"))
				time.Sleep(15 * time.Second) // not the delay of a refused creation
				if j := w.Job("second"); !objects.Finished(j) || j.Status.Succeeded != 3 {
					t.Errorf("it has not gone on when there was room: %+v", j.Status)
				}
			})
		})
	}
}

// Nothing is created in a namespace that is being deleted.
func TestAGangInANamespaceThatIsBeingDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := controltest.New(t)
		defer w.End()
		ns := &corev1.Namespace{}
		ns.Name, ns.Status.Phase = "default", corev1.NamespaceTerminating
		w.Put(store.Key(objects.Namespaces, "", "default"), ns)
		w.Create(gang("j"))
		time.Sleep(time.Minute)
		if a, b, c := count(w, objects.Workloads), count(w, objects.PodGroups), len(w.Pods()); a+b+c > 0 {
			t.Errorf("%d Workloads, %d PodGroups and %d pods", a, b, c)
		}
		if said := w.Events("j"); !slices.ContainsFunc(said, func(e string) bool { return strings.Contains(e, "is being terminated") }) {
			t.Errorf("the Job says %q", said)
		}
	})
}

// A PodGroup gets the priority of its class, as one does that a client creates, and is refused without the class.
func TestTheClassOfAGang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := controltest.New(t)
		defer w.End()
		j := gang("j")
		j.Spec.Template.Spec.PriorityClassName = "absent"
		w.Create(j)
		time.Sleep(time.Second)
		if n := count(w, objects.PodGroups); n > 0 {
			t.Errorf("%d PodGroups", n)
		}
		if said := w.Events("j"); !slices.ContainsFunc(said, func(e string) bool {
			return strings.HasPrefix(e, `FailedCreate: Error creating: podgroups.scheduling.k8s.io "j-`) &&
				strings.HasSuffix(e, "is forbidden: no PriorityClass with name absent was found")
		}) {
			t.Errorf("the Job says %q", said)
		}
	})
}
