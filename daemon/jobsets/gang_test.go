package jobsets_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	api "github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/runtime/simulated"
	"github.com/jobd/jobd/store"
)

// asking is a group of so many Jobs of one pod, each of which asks for a processor, runs that long and ends with these codes.
func asking(name string, replicas, retries int, duration, codes string) string {
	return fmt.Sprintf(`{name: %s, replicas: %d, template: {spec: {backoffLimit: %d, template: {metadata: {annotations: {%s: %q, %s: %q}},
		spec: {restartPolicy: Never, containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]}}}}}`,
		name, replicas, retries, simulated.Duration, duration, simulated.ExitCode, codes)
}

func gang(w *controltest.World, name, more string, groups ...string) {
	w.CreateJobSet(name, "{network: {enableDNSHostnames: false}, "+more+"replicatedJobs: ["+strings.Join(groups, ", ")+"]}", api.GangAnnotation, "true")
	synctest.Wait()
}

// bound counts the pods of each JobSet that are on the node and have not ended.
func bound(w *controltest.World) map[string]int {
	n := map[string]int{}
	for _, p := range w.Pods() {
		if p.Spec.NodeName != "" && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			n[p.Labels[jobsetv1.JobSetNameKey]]++
		}
	}
	return n
}

func inWorld(t *testing.T, cpus int64, do func(*controltest.World)) {
	synctest.Test(t, func(t *testing.T) {
		w := controltest.New(t)
		defer w.End()
		w.Stop()
		w.Allocatable = map[corev1.ResourceName]int64{corev1.ResourceCPU: cpus * 1000}
		w.Start()
		do(w)
	})
}

func TestAWholeJobSetStartsTogether(t *testing.T) {
	inWorld(t, 4, func(w *controltest.World) {
		w.Bare("other", "2", "1m", nil)
		gang(w, "s", "", asking("leader", 1, 0, "1m", "0"), asking("workers", 2, 3, "1m", "1,0"),
			strings.Replace(asking("after", 2, 0, "1m", "0"), "template:", "dependsOn: [{name: leader, status: Complete}], template:", 1))
		time.Sleep(30 * time.Second)
		if n := bound(w); n["s"] != 0 {
			t.Errorf("%v run beside another, and there is no room for all", n)
		}
		time.Sleep(31 * time.Second) // the other one has ended
		if n := bound(w); n["s"] != 3 {
			t.Errorf("%v run, and there is room for all", n)
		}
		w.Stop() // what has begun is known
		w.Start()
		// The leader ends, and workers that failed are made again though not all of the gang are there any more.
		time.Sleep(3 * time.Minute)
		if said := state(w.JobSet("s")); said != "after 0/2/0 leader 0/1/0 workers 2/0/0 " || w.Job("s-workers-0").Status.Failed == 0 {
			t.Errorf("%s, %+v", said, w.Job("s-workers-0").Status)
		}
	})
}

// Another attempt starts together too, and so does a JobSet that was suspended.
func TestAGangBeginsAnew(t *testing.T) {
	inWorld(t, 3, func(w *controltest.World) {
		gang(w, "s", "failurePolicy: {maxRestarts: 1}, ", asking("a", 1, 0, "1m", "1"), asking("b", 2, 0, "10m", "0"))
		time.Sleep(time.Second)
		if n := bound(w); n["s"] != 3 {
			t.Fatalf("%v run", n)
		}
		w.Bare("other", "1", "1m", func(p *corev1.Pod) { p.Spec.Priority = ptr.To[int32](0) })
		time.Sleep(time.Minute) // a has failed; the other one takes its place
		if n := bound(w); n["s"] != 0 || w.JobSet("s").Status.Restarts != 1 {
			t.Errorf("%v run of another attempt without room for all: %s", n, state(w.JobSet("s")))
		}
		time.Sleep(time.Minute)
		if n := bound(w); n["s"] != 3 {
			t.Errorf("%v run of another attempt", n)
		}
		for name, want := range map[string]bool{"s-gang-0": false, "s-gang-1": true} {
			if there := w.Read(store.Key(objects.PodGroups, "default", name), api.NewGang(w.JobSet("s"))); there != want {
				t.Errorf("%s is there: %v", name, there)
			}
		}
		w.EditJobSet("s", func(js *jobsetv1.JobSet) { js.Spec.Suspend = ptr.To(true) })
		time.Sleep(time.Second)
		w.Bare("again", "1", "1m", nil)
		time.Sleep(time.Second)
		w.EditJobSet("s", func(js *jobsetv1.JobSet) { js.Spec.Suspend = ptr.To(false) })
		time.Sleep(time.Second)
		if n := bound(w); n["s"] != 0 {
			t.Errorf("%v run that were resumed without room for all", n)
		}
		time.Sleep(time.Minute)
		if n := bound(w); n["s"] != 3 {
			t.Errorf("%v run that were resumed", n)
		}
	})
}

// A PodGroup that has the name of one of a former attempt, and is somebody else's, stays.
func TestAnothersGroupStays(t *testing.T) {
	inWorld(t, 3, func(w *controltest.World) {
		gang(w, "s", "failurePolicy: {maxRestarts: 2}, ", asking("a", 1, 0, "1m", "1"))
		key := func(attempt int) string {
			return store.Key(objects.PodGroups, "default", fmt.Sprint("s-gang-", attempt))
		}
		pg := api.NewGang(w.JobSet("s"))
		if !w.Read(key(0), pg) {
			t.Fatal("there is none")
		}
		pg.OwnerReferences = nil
		w.Put(key(0), pg)
		time.Sleep(150 * time.Second) // two attempts have failed
		for attempt, want := range []bool{true, false, true} {
			if there := w.Read(key(attempt), pg); there != want {
				t.Errorf("that of attempt %d is there: %v; %s", attempt, there, state(w.JobSet("s")))
			}
		}
	})
}

// Whole JobSets that a quota holds up create all of their pods or none.
func TestGangsOfJobSetsShareAQuota(t *testing.T) {
	inWorld(t, 100, func(w *controltest.World) {
		w.Limit("cpu", corev1.ResourceList{corev1.ResourceRequestsCPU: resource.MustParse("5")})
		gang(w, "large", "", asking("a", 3, 0, "1m", "0"), asking("b", 3, 0, "1m", "0"))
		for i := range 4 {
			gang(w, fmt.Sprint("s", i), "", asking("a", 1, 0, "1m", "0"), asking("b", 2, 0, "1m", "0"))
		}
		gang(w, "held", "suspend: true, ", asking("a", 2, 0, "1m", "0"), asking("b", 1, 0, "1m", "0"))
		w.EditJobSet("held", func(js *jobsetv1.JobSet) { js.Spec.Suspend = ptr.To(false) })
		for range 12 {
			time.Sleep(30 * time.Second)
			for name, n := range bound(w) {
				if n != 0 && n != 3 {
					t.Errorf("%d of %s run", n, name)
				}
			}
		}
		for _, name := range []string{"s0", "s1", "s2", "s3", "held"} {
			if js := w.JobSet(name); js.Status.TerminalState != "Completed" {
				t.Errorf("%s: %s; %q", name, state(js), w.Events(name))
			}
		}
		said := strings.Join(w.Events("large"), "\n")
		if !strings.Contains(said, "JobCreationFailed: its pods start together (jobd.dev/gang): ") ||
			!strings.Contains(said, "6 start together: exceeded quota: cpu") {
			t.Errorf("%s", said)
		}
		w.Limit("cpu", corev1.ResourceList{corev1.ResourceRequestsCPU: resource.MustParse("6")})
		time.Sleep(2 * time.Minute)
		if js := w.JobSet("large"); js.Status.TerminalState != "Completed" {
			t.Errorf("%s", state(js))
		}
	})
}
