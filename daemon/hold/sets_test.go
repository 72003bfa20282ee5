package hold_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/api/picture"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/hold"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/runtime/simulated"
	"github.com/jobd/jobd/store"
)

// set makes a JobSet of one Job that runs for a minute and exits with a code, after others if it names some.
func set(w *controltest.World, name, needs, code string) {
	spec := `{network: {enableDNSHostnames: false}, replicatedJobs: [{name: w, template: {spec: {backoffLimit: 0, template: {
		metadata: {annotations: {` + simulated.Duration + `: 1m, ` + simulated.ExitCode + `: "` + code + `"}}, spec: {restartPolicy: Never}}}}}]`
	if needs == "" {
		w.CreateJobSet(name, spec+"}")
	} else {
		w.CreateJobSet(name, spec+", suspend: true}", batch.AfterAnnotation, needs)
	}
	synctest.Wait()
}

func removeSet(w *controltest.World, name string) {
	w.Write(func(tx *store.Tx) error { tx.Delete(store.Key(objects.JobSets, "default", name)); return nil })
	synctest.Wait()
}

func expectSet(t *testing.T, w *controltest.World, name, want string) {
	t.Helper()
	js := w.JobSet(name)
	if js == nil || jobset.State(js) != want {
		t.Errorf("%s is %+v, want %s; %q", name, js, want, w.Events(name))
	}
}

func TestJobSetsAndJobsStartAfterEachOther(t *testing.T) {
	play(t, "in a chain, in the moment in which the one before ends", func(t *testing.T, w *controltest.World) {
		w.Create(after("last", "jobsets/train", "1m", "0"))
		set(w, "train", "jobsets/prep,check:any", "0")
		set(w, "prep", "", "0")
		w.Create(plain("check", "90s", "1"))
		time.Sleep(time.Second)
		expectSet(t, w, "train", "Waiting")
		chain := []picture.Link{}
		if err := w.Store.View(func(s *store.Snapshot) (err error) { chain, err = hold.Chain(s, w.Job("last")); return err }); err != nil {
			t.Fatal(err)
		}
		want := []picture.Link{
			{Name: "jobsets/train", For: "last", When: "ok", State: "Waiting"},
			{Name: "jobsets/prep", For: "jobsets/train", When: "ok", State: "Running", Depth: 1},
			{Name: "check", For: "jobsets/train", When: "any", State: "Running", Depth: 1},
		}
		for i := range want {
			if len(chain) != len(want) || chain[i] != want[i] {
				t.Fatalf("%+v, want %+v", chain, want)
			}
		}
		time.Sleep(65 * time.Second)
		expectSet(t, w, "prep", "Complete")
		expectSet(t, w, "train", "Waiting")
		time.Sleep(30 * time.Second)
		expectSet(t, w, "train", "Running")
		if j, check := w.Job("train-w-0"), w.Job("check"); !j.Status.StartTime.Equal(&batch.End(&check.Status).LastTransitionTime) {
			t.Errorf("it began at %v, after %v", j.Status.StartTime, check.Status.Conditions)
		}
		if said := strings.Join(w.Events("train"), "\n"); !strings.Contains(said, "NeedsMet: jobsets/prep has completed, check has failed (jobd.dev/after)") {
			t.Errorf("%s", said)
		}
		if js := w.JobSet("train"); js.Annotations[batch.ResumedAnnotation] == "" || js.Generation != 2 {
			t.Errorf("%+v", js.ObjectMeta)
		}
		expect(t, w, "last", "Waiting")
		time.Sleep(time.Minute)
		expect(t, w, "last", "Running")
	})
	play(t, "not after one that has failed, but after its failure", func(t *testing.T, w *controltest.World) {
		set(w, "train", "", "1")
		w.Create(after("report", "jobsets/train", "1m", "0"))
		set(w, "clean", "jobsets/train:failed", "0")
		time.Sleep(70 * time.Second)
		expectSet(t, w, "train", "Failed")
		expect(t, w, "report", "Waiting")
		expectSet(t, w, "clean", "Running")
	})
	play(t, "one that is gone is known, also to another daemon", func(t *testing.T, w *controltest.World) {
		w.Create(after("report", "jobsets/train,check:any", "1m", "0"))
		w.Create(after("never", "jobsets/dropped", "1m", "0"))
		set(w, "second", "jobsets/train,check:any", "0")
		set(w, "train", "", "0")
		set(w, "dropped", "", "0")
		time.Sleep(30 * time.Second)
		removeSet(w, "dropped")
		time.Sleep(40 * time.Second)
		expectSet(t, w, "train", "Complete")
		removeSet(w, "train")
		w.Stop()
		w.Start()
		w.Create(plain("check", "10s", "1"))
		time.Sleep(11 * time.Second)
		expect(t, w, "report", "Running")
		expectSet(t, w, "second", "Running")
		expect(t, w, "never", "Waiting")
		set(w, "dropped", "", "0") // under the same name
		time.Sleep(61 * time.Second)
		expect(t, w, "never", "Running")
	})
	play(t, "whoever resumes one means it", func(t *testing.T, w *controltest.World) {
		set(w, "train", "never", "0")
		js := w.JobSet("train")
		api := jobset.Kind()
		js.ResourceVersion = "1"
		old := js.DeepCopy()
		*js.Spec.Suspend = false
		api.Strategy.PrepareForUpdate(t.Context(), js, old)
		if js.Annotations[batch.ResumedAnnotation] == "" {
			t.Error("it is not recorded")
		}
		again := js.DeepCopy()
		*again.Spec.Suspend = true
		if said := api.Strategy.WarningsOnUpdate(t.Context(), again, js); len(said) != 1 || !strings.Contains(said[0], "the JobSet was resumed at") {
			t.Errorf("%q", said)
		}
		again.Annotations[batch.AfterAnnotation] = "other"
		if errs := api.Strategy.ValidateUpdate(t.Context(), again, js); len(errs) != 1 || !strings.Contains(errs[0].Error(), "has no effect any more") {
			t.Errorf("%v", errs)
		}
	})
}
