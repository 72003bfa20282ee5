package jobsets_test

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/batch"
	api "github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/runtime/simulated"
	"github.com/jobd/jobd/store"
)

// pods is a template whose pods run that long and end with these codes.
func pods(duration, codes string) string {
	return fmt.Sprintf(`template: {spec: {backoffLimit: 0, template: {metadata: {annotations: {%s: %q, %s: %q}}, spec: {restartPolicy: Never}}}}`,
		simulated.Duration, duration, simulated.ExitCode, codes)
}

// state is what the status says, in one line.
func state(js *jobsetv1.JobSet) string {
	if js == nil {
		return "gone"
	}
	var parts []string
	for _, g := range js.Status.ReplicatedJobsStatus {
		parts = append(parts, fmt.Sprintf("%s %d/%d/%d", g.Name, g.Ready, g.Succeeded, g.Failed))
	}
	slices.Sort(parts)
	if js.Status.Restarts > 0 {
		parts = append(parts, fmt.Sprintf("restarts %d", js.Status.Restarts))
	}
	return strings.Join(append(parts, js.Status.TerminalState), " ")
}

// attempts returns the Jobs that are there, with the attempts in which they were made.
func attempts(w *controltest.World) (all []string) {
	for _, name := range w.JobNames() {
		all = append(all, name+":"+w.Job(name).Labels[api.RestartAttemptKey])
	}
	return all
}

func TestAJobSetRunsToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := controltest.New(t)
		defer w.End()
		w.CreateJobSet("train", `{ttlSecondsAfterFinished: 600, replicatedJobs: [{name: data, `+pods("10s", "0")+`},
			{name: workers, replicas: 3, dependsOn: [{name: data, status: Complete}], `+pods("1m", "0")+`}]}`)
		time.Sleep(time.Second)
		if names := w.JobNames(); !slices.Equal(names, []string{"train-data-0"}) {
			t.Errorf("at first there are %v", names)
		}
		time.Sleep(10 * time.Second)
		if got := state(w.JobSet("train")); got != "data 0/1/0 workers 3/0/0 " {
			t.Errorf("after the first group: %s", got)
		}
		svc := &corev1.Service{}
		if err := w.Store.View(func(s *store.Snapshot) error {
			_, err := objects.Read(s, store.Key(objects.Services, "default", "train"), svc)
			return err
		}); err != nil || svc.Spec.ClusterIP != "None" || !svc.Spec.PublishNotReadyAddresses || svc.Spec.Selector[jobsetv1.JobSetNameKey] != "train" {
			t.Errorf("the Service is %+v: %v", svc.Spec, err)
		}
		if p := w.Pods()[0]; p.Spec.Hostname != "train-data-0-0" || p.Spec.Subdomain != "train" || p.Labels[jobsetv1.JobSetNameKey] != "train" {
			t.Errorf("its pod is called %s.%s: %v", p.Spec.Hostname, p.Spec.Subdomain, p.Labels)
		}
		time.Sleep(time.Minute)
		if got := state(w.JobSet("train")); got != "data 0/1/0 workers 0/3/0 Completed" {
			t.Errorf("in the end: %s", got)
		}
		w.WantFigures(map[string]float64{"jobset_completed_total{train,default}": 1})
		time.Sleep(9 * time.Minute)
		if w.JobSet("train") == nil {
			t.Error("it has gone too early")
		}
		time.Sleep(time.Minute)
		if js, names := w.JobSet("train"), w.JobNames(); js != nil || len(names) > 0 || len(w.Pods()) > 0 {
			t.Errorf("after its time: %v, %v", js, names)
		}
	})
}

// What follows from the end of a Job is in the store together with that: no client ever sees one without the other.
func TestTheEndOfAJobAndWhatFollowsAreOneTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := controltest.New(t)
		defer w.End()
		w.CreateJobSet("s", `{replicatedJobs: [{name: a, `+pods("10s", "0")+`}, {name: b, dependsOn: [{name: a, status: Complete}], `+pods("10s", "0")+`}]}`)
		before := uint64(0)
		time.Sleep(9 * time.Second)
		before = w.Store.Version()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		ended, created := -1, -1
		n := 0
		if err := w.Store.View(func(s *store.Snapshot) error {
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		w.Write(func(tx *store.Tx) error {
			return tx.Changes(before, func(c store.Change) bool {
				n++
				switch {
				case c.Object.Key == "jobs.batch/default/s-a-0":
					ended = n
				case c.Object.Key == "jobs.batch/default/s-b-0" && created < 0:
					created = n
				}
				return true
			})
		})
		if ended < 0 || created < 0 {
			t.Errorf("the end is change %d, the creation %d of %d", ended, created, n)
		}
		a, b := w.Job("s-a-0"), w.Job("s-b-0")
		if !b.CreationTimestamp.Time.Equal(a.Status.CompletionTime.Time) {
			t.Errorf("one ended at %v, the next was created at %v", a.Status.CompletionTime, b.CreationTimestamp)
		}
	})
}

func TestAFailureRestartsTheSet(t *testing.T) {
	for _, strategy := range []string{"Recreate", "BlockingRecreate"} {
		t.Run(strategy, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := controltest.New(t)
				defer w.End()
				w.CreateJobSet("s", `{failurePolicy: {maxRestarts: 2, restartStrategy: `+strategy+`}, replicatedJobs: [{name: ok, replicas: 2, `+
					pods("1h", "0")+`}, {name: bad, `+pods("30s", "1")+`}]}`)
				time.Sleep(40 * time.Second)
				if got := attempts(w); !slices.Equal(got, []string{"s-bad-0:1", "s-ok-0:1", "s-ok-1:1"}) {
					t.Errorf("after one failure: %v", got)
				}
				w.Stop()
				w.Start()
				time.Sleep(40 * time.Second)
				if got := attempts(w); !slices.Equal(got, []string{"s-bad-0:2", "s-ok-0:2", "s-ok-1:2"}) {
					t.Errorf("after two: %v", got)
				}
				time.Sleep(40 * time.Second)
				js := w.JobSet("s")
				if got := state(js); got != "bad 0/0/1 ok 0/0/0 restarts 2 Failed" {
					t.Errorf("after three: %s", got)
				}
				if got := attempts(w); !slices.Equal(got, []string{"s-bad-0:2"}) {
					t.Errorf("what is left: %v", got)
				}
				var reasons []string
				for _, c := range js.Status.Conditions {
					reasons = append(reasons, c.Type+"="+string(c.Status)+" "+c.Reason)
				}
				if want := "[RestartingJobSet=False JobSetFailed Failed=True ReachedMaxRestarts]"; fmt.Sprint(reasons) != want {
					t.Errorf("%v, want %s", reasons, want)
				}
			})
		})
	}
}

// A daemon that ends at any moment of a restart goes on with it, and makes no Job twice.
func TestKillsInRestarts(t *testing.T) {
	for seed := range int64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewSource(seed))
				w := controltest.New(t)
				defer w.End()
				w.CreateJobSet("s", `{failurePolicy: {maxRestarts: 3}, replicatedJobs: [{name: a, replicas: 4, `+pods("5s", "1")+`}, {name: b, replicas: 3, `+
					pods("1h", "0")+`}]}`)
				for range 40 {
					time.Sleep(time.Duration(random.Intn(2000)) * time.Millisecond)
					w.Stop()
					w.Start()
					js := w.JobSet("s")
					for _, name := range w.JobNames() {
						if at := w.Job(name).Labels[api.RestartAttemptKey]; at > fmt.Sprint(js.Status.Restarts) {
							t.Fatalf("%s is of attempt %s, the JobSet in %d", name, at, js.Status.Restarts)
						}
					}
				}
				if got := state(w.JobSet("s")); !strings.HasSuffix(got, "restarts 3 Failed") {
					t.Error(got)
				}
			})
		})
	}
}

func TestSuspendedAndResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := controltest.New(t)
		defer w.End()
		w.CreateJobSet("s", `{suspend: true, replicatedJobs: [{name: a, replicas: 2, `+pods("1m", "0")+`}]}`)
		time.Sleep(time.Second)
		if names := w.JobNames(); len(names) != 2 || len(w.Pods()) > 0 {
			t.Errorf("suspended it has %v", names)
		}
		suspend := func(is bool) func(*jobsetv1.JobSet) {
			return func(js *jobsetv1.JobSet) { js.Spec.Suspend = ptr.To(is) }
		}
		w.EditJobSet("s", func(js *jobsetv1.JobSet) {
			suspend(false)(js)
			js.Spec.ReplicatedJobs[0].Template.Spec.Template.Labels = map[string]string{"team": "red"}
		})
		if all := w.Pods(); len(all) != 2 || all[0].Labels["team"] != "red" {
			t.Errorf("resumed it has %d pods", len(all))
		}
		time.Sleep(30 * time.Second)
		w.EditJobSet("s", suspend(true))
		time.Sleep(time.Minute)
		for _, p := range w.Pods() {
			if p.Status.Phase == corev1.PodRunning {
				t.Errorf("%s runs", p.Name)
			}
		}
		w.EditJobSet("s", suspend(false))
		time.Sleep(2 * time.Minute)
		if got := state(w.JobSet("s")); got != "a 0/2/0 Completed" {
			t.Error(got)
		}
	})
}

// A JobSet that is paused pauses its Jobs, also those that it creates meanwhile, over a restart of the daemon, and lets them go on.
func TestPausedAndContinued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := controltest.New(t)
		defer w.End()
		w.CreateJobSet("s", `{failurePolicy: {maxRestarts: 1}, replicatedJobs: [{name: a, replicas: 2, `+pods("1m", "0")+`}, {name: b, dependsOn: [
			{name: a, status: Complete}], `+pods("1m", "0")+`}]}`)
		time.Sleep(30 * time.Second)
		w.EditJobSet("s", func(js *jobsetv1.JobSet) {
			metav1.SetMetaDataAnnotation(&js.ObjectMeta, batch.PausedAnnotation, time.Now().UTC().Format(time.RFC3339Nano))
		})
		time.Sleep(10 * time.Minute)
		w.Stop()
		w.Start()
		time.Sleep(10 * time.Minute)
		for _, name := range []string{"s-a-0", "s-a-1"} {
			if j := w.Job(name); batch.State(j) != batch.StatePaused || batch.PausedBy(&j.Status) != batch.PausedByUser {
				t.Errorf("%s is %s", name, batch.State(j))
			}
		}
		w.EditJobSet("s", func(js *jobsetv1.JobSet) { delete(js.Annotations, batch.PausedAnnotation) })
		time.Sleep(29 * time.Second)
		if got := state(w.JobSet("s")); got != "a 2/0/0 b 0/0/0 " {
			t.Errorf("they were frozen for twenty minutes, and have a second left: %s", got)
		}
		time.Sleep(2 * time.Minute)
		if got := state(w.JobSet("s")); got != "a 0/2/0 b 0/1/0 Completed" {
			t.Error(got)
		}
	})
}

// A Job of the name that a Job of the set is to have is no Job of the set: somebody has to decide.
func TestANameThatIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := controltest.New(t)
		defer w.End()
		other := controltest.Simulate("s-a-0", "1h", "0")
		w.Create(other)
		w.CreateJobSet("s", `{replicatedJobs: [{name: a, `+pods("1m", "0")+`}]}`)
		time.Sleep(time.Minute)
		said := strings.Join(w.Events("s"), "\n")
		if want := `JobCreationFailed: job "s-a-0" creation failed with error: jobs.batch "s-a-0" already exists`; !strings.Contains(said, want) {
			t.Errorf("it says %s", said)
		}
		w.Write(func(tx *store.Tx) error {
			_, _, err := storage.Delete(tx, objects.Key(objects.Jobs, other))
			return err
		})
		time.Sleep(10 * time.Minute)
		if got := state(w.JobSet("s")); got != "a 0/1/0 Completed" {
			t.Error(got)
		}
	})
}

func TestAQuotaHoldsASetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := controltest.New(t)
		defer w.End()
		q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q", Namespace: "default", UID: "q"}}
		q.Spec.Hard = corev1.ResourceList{"count/jobs.batch": resource.MustParse("2")}
		q.Status.Hard = q.Spec.Hard
		w.Put(store.Key("resourcequotas", "default", "q"), q)
		w.CreateJobSet("s", `{replicatedJobs: [{name: a, replicas: 3, `+pods("1m", "0")+`}]}`)
		time.Sleep(30 * time.Second)
		if names := w.JobNames(); len(names) != 2 {
			t.Errorf("there are %v", names)
		}
		q.Spec.Hard = corev1.ResourceList{"count/jobs.batch": resource.MustParse("3")}
		q.Status.Hard = q.Spec.Hard
		w.Put(store.Key("resourcequotas", "default", "q"), q)
		synctest.Wait()
		if names := w.JobNames(); len(names) != 3 {
			t.Errorf("as soon as it may there are %v", names)
		}
	})
}

// A JobSet that is deleted takes its Jobs, pods and its Service along, and what is retained stays.
func TestDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := controltest.New(t)
		defer w.End()
		claim := `{metadata: {name: %s}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}}`
		js := w.CreateJobSet("s", `{volumeClaimPolicies: [{templates: [`+fmt.Sprintf(claim, "tmp")+`]}, {retentionPolicy: {whenDeleted: Retain}, templates: [`+
			fmt.Sprintf(claim, "kept")+`]}], replicatedJobs: [{name: a, replicas: 2, template: {spec: {template: {spec: {containers: [{name: c, image: busybox,
			volumeMounts: [{name: tmp, mountPath: /t}, {name: kept, mountPath: /k}]}]}}}}}]}`)
		time.Sleep(10 * time.Second)
		if all := w.Pods(); len(all) != 2 || all[0].Spec.Volumes[1].PersistentVolumeClaim.ClaimName != "kept-s" {
			t.Fatalf("it has %d pods", len(all))
		}
		w.Write(func(tx *store.Tx) error {
			_, _, err := storage.Delete(tx, objects.Key(objects.JobSets, js))
			return err
		})
		time.Sleep(2 * time.Minute)
		left := map[string]bool{}
		if err := w.Store.View(func(s *store.Snapshot) error {
			for _, resource := range []string{objects.Jobs, objects.Pods, objects.Services, objects.Claims} {
				s.Range(resource+"/", "", func(o store.Object) bool {
					left[o.Key] = true
					return true
				})
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if len(left) != 1 || !left["persistentvolumeclaims/default/kept-s"] {
			t.Errorf("left are %v", left)
		}
	})
}
