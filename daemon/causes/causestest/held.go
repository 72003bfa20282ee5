package causestest

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/daemon/causes"
	"github.com/jobd/jobd/daemon/hold"
	"github.com/jobd/jobd/daemon/job"
)

// heldJobs are the cases of a Job that something holds back before it starts.
func heldJobs() map[string]Case {
	after := func(text string, outcomes ...hold.Outcome) (*batchv1.Job, causes.World) {
		j := newJob(func(j *batchv1.Job) {
			j.Spec.Suspend, j.Status.StartTime = ptr.To(true), nil
			j.CreationTimestamp.Time = Now
			j.Annotations = map[string]string{batch.AfterAnnotation: text}
		})
		w := causes.World{}
		for i, n := range batch.After(j.Annotations) {
			w.Needs = append(w.Needs, hold.Need{Need: n, Outcome: outcomes[i], Verdict: hold.Judge(n, outcomes[i], Now)})
		}
		return j, w
	}
	all := map[string]Case{}
	add := func(name string, c Case, text string, outcomes ...hold.Outcome) {
		c.Job, c.World = after(text, outcomes...)
		all[name] = c
	}
	add("after one that runs", Case{Reason: "Job a has to complete first", Help: "why jobs/a", Start: Waits},
		"a", hold.Outcome{Exists: true, State: batch.StateRunning})
	add("after one that has completed and one that waits", Case{Reason: "Job b has to end first", Help: "why jobs/b", Start: Waits},
		"a,b:any", hold.Outcome{Exists: true, Result: "Complete", Ended: Now}, hold.Outcome{Exists: true, State: batch.StateWaiting})
	add("after one that has failed", Case{Reason: "Job a has to complete first, but has failed", Help: "retry jobs/a", Start: Cannot},
		"a", hold.Outcome{Exists: true, Result: "Failed", Ended: Now})
	add("after the failure of one that has completed", Case{Reason: "Job a has to fail first, but has completed", Help: "resume jobs/j", Start: Cannot},
		"a:failed", hold.Outcome{Exists: true, Result: "Complete", Ended: Now})
	add("after a JobSet that runs", Case{Reason: "JobSet a has to complete first", Help: "why jobsets/a", Start: Waits},
		"jobsets/a", hold.Outcome{Exists: true, State: batch.StateRunning})
	add("after a JobSet that has failed", Case{Reason: "JobSet a has to complete first, but has failed", Help: "submit --replace", Start: Cannot},
		"jobsets/a", hold.Outcome{Exists: true, Result: "Failed", Ended: Now})
	add("after one that is not there", Case{Reason: "there is no Job a yet", Help: "resume jobs/j", Start: CannotAlone}, "a", hold.Outcome{})
	add("after one that had ended before", Case{Reason: "there is no Job a yet", Help: "does not count", Start: CannotAlone},
		"a", hold.Outcome{Result: "Complete", Ended: Now.Add(-time.Minute)})
	both := Case{Reason: "paused", Help: "continue jobs/j", Start: Waits}
	both.Job, both.World = after("a", hold.Outcome{Exists: true, State: batch.StateRunning})
	both.Job.Annotations[batch.PausedAnnotation] = "2023-11-14T22:00:00Z"
	all["after one that runs, and paused"] = both
	timed, world := after("a", hold.Outcome{Exists: true, State: batch.StateRunning})
	timed.Annotations[batch.StartAtAnnotation] = Now.Add(time.Hour).Format(time.RFC3339)
	all["at a time, and after one that runs"] = Case{
		Job: timed, World: world, Reason: "starts at " + Now.Add(time.Hour).Format(time.RFC3339), Help: "why jobs/a", Start: Waits,
	}
	alone := timed.DeepCopy()
	delete(alone.Annotations, batch.AfterAnnotation)
	paused := alone.DeepCopy()
	paused.Annotations[batch.PausedAnnotation] = "2023-11-14T22:00:00Z"
	all["at a time, and paused"] = Case{Job: paused, Reason: "paused", Help: "continue jobs/j", Start: Waits}
	all["at a time"] = Case{Job: alone, Reason: "starts at " + Now.Add(time.Hour).Format(time.RFC3339), Help: "resume jobs/j", Start: Waits}
	closed := newJob(func(j *batchv1.Job) {
		j.Status.StartTime = nil
		w := core.WindowOf(map[string]string{core.WindowAnnotation: "00:00-01:00", core.WindowTimeZoneAnnotation: "UTC"})
		_, opens := w.At(Now)
		j.Status.Conditions = []batchv1.JobCondition{{
			Type: batch.JobWindowClosed, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(Now), Message: batch.WindowMessage(w, opens),
		}}
	})
	all["outside of its window"] = Case{
		Job: closed, World: causes.World{Standing: &job.Standing{}}, Reason: "outside of its window, which opens Wed 00:00",
		Help: "jobd.dev/window=00:00-24:00", Start: Waits,
	}
	all["no place in its group"] = Case{
		Job:    newJob(func(j *batchv1.Job) { j.Status.StartTime = nil }),
		World:  causes.World{Standing: &job.Standing{}, Group: &hold.Wait{Group: "db", Limit: 1, Holders: []string{"a"}, Ahead: 2}},
		Reason: "no place in the concurrency group db (1 of 1 taken)", Help: "get groups", Start: Waits,
	}
	return all
}
