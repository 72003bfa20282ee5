package upkeep_test

import (
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/objects"
)

// overflowing is a Job that needs the whole machine and goes to a cluster after a minute.
func overflowing(change func(*batchv1.Job)) *batchv1.Job {
	j := controltest.Simulate("j", "30s", "0")
	j.Annotations = map[string]string{clusters.OverflowAfterAnnotation: "1m"}
	j.Spec.ManagedBy = ptr.To(clusters.OverflowManager("prod"))
	j.Spec.Parallelism, j.Spec.Completions = ptr.To[int32](3), ptr.To[int32](3)
	j.Spec.Template.Spec.Containers = controltest.Asking("3")
	if change != nil {
		change(j)
	}
	return j
}

// serve has a forwarder serve the cluster for a long time.
func serve(w *controltest.World) {
	l := clusters.Lease("prod", time.Now())
	l.Spec.LeaseDurationSeconds = ptr.To[int32](1 << 20)
	w.Put(objects.Key(objects.Leases, l), l)
}

// A Job that cannot start here goes to the cluster, once its time is over, and is nobody else's then. One that could start stays.
func TestOverflow(t *testing.T) {
	for rule, c := range map[string]struct {
		job     func(*batchv1.Job)
		busy    string // for how long the machine is
		during  func(w *controltest.World)
		goes    bool
		handed  time.Duration // after which it is the cluster's, if it goes
		stopped bool          // the daemon is started anew while it waits
	}{
		"there is no room":           {busy: "1h", goes: true, handed: time.Minute},
		"there is room in time":      {busy: "50s"},
		"there is room at once":      {busy: "0s"},
		"the daemon is started anew": {busy: "1h", goes: true, handed: time.Minute, stopped: true},
		"by itself after ten minutes": {busy: "1h", goes: true, handed: 10 * time.Minute, job: func(j *batchv1.Job) {
			delete(j.Annotations, clusters.OverflowAfterAnnotation)
		}},
		"suspended, it waits here": {busy: "1h", job: func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(true) }},
		"resumed, it waits from then on": {busy: "1h", goes: true, handed: 90 * time.Second, job: func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(true) },
			during: func(w *controltest.World) {
				j := w.Job("j")
				j.Spec.Suspend = ptr.To(false)
				w.Put(objects.Key(objects.Jobs, j), j)
			}},
		"moved by somebody, it is left to that": {busy: "1h", during: func(w *controltest.World) {
			j := w.Job("j")
			if err := batch.MoveJob(j, batch.Move{To: "elsewhere"}); err != nil {
				w.T.Fatal(err)
			}
			w.Put(objects.Key(objects.Jobs, j), j)
		}},
	} {
		t.Run(rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := controltest.Small(t)
				defer w.End()
				serve(w)
				w.Bare("busy", "3", c.busy, nil)
				synctest.Wait()
				w.Create(overflowing(c.job))
				time.Sleep(30 * time.Second)
				if c.during != nil {
					c.during(w)
				}
				if c.stopped {
					w.Stop()
					w.Start()
				}
				if c.goes {
					time.Sleep(c.handed - 31*time.Second)
					if j := w.Job("j"); !job.Managed(j) || len(w.Pods()) != 4 {
						t.Errorf("handed over too early, or with pods: %v %d", j.Annotations, len(w.Pods()))
					}
				}
				time.Sleep(10 * time.Minute)
				j := w.Job("j")
				switch {
				case c.goes:
					if clusters.Of(j) != "prod" || job.Managed(j) || ptr.Deref(j.Spec.Suspend, false) || j.Status.StartTime != nil ||
						len(j.Status.Conditions) > 0 || batch.MovingOf(j.Annotations) != nil {
						t.Errorf("not handed over as a new one: %v %+v", j.Annotations, j.Status)
					}
					for _, p := range w.Pods() {
						if p.Labels[batchv1.JobNameLabel] == "j" {
							t.Errorf("pod %s is left", p.Name)
						}
					}
				case clusters.Of(j) != "" || !job.Managed(j):
					t.Errorf("handed over: %v %+v", j.Annotations, j.Status)
				}
			})
		})
	}
}

// Without a forwarder it stays, and may still start here.
func TestOverflowWithoutAForwarder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := controltest.Small(t)
		defer w.End()
		w.Bare("busy", "3", "1h", nil)
		synctest.Wait()
		w.Create(overflowing(nil))
		time.Sleep(10 * time.Minute)
		if j := w.Job("j"); clusters.Of(j) != "" || batch.MovingOf(j.Annotations) != nil {
			t.Errorf("handed over to nobody: %v", j.Annotations)
		}
		serve(w)
		time.Sleep(20 * time.Second)
		if j := w.Job("j"); clusters.Of(j) != "prod" {
			t.Errorf("not handed over: %v", j.Annotations)
		}
	})
}

// Of a Job that goes on here the cluster gets nothing, though a pod was bound at the last moment and has failed.
func TestOverflowOfAJobThatHasBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := controltest.Small(t)
		defer w.End()
		serve(w)
		w.Bare("busy", "3", "59s", nil)
		synctest.Wait()
		w.Create(overflowing(func(j *batchv1.Job) { j.Spec.Template.Annotations["jobd.dev/simulate-exit-code"] = "1" }))
		time.Sleep(61 * time.Second)
		w.Bare("busy2", "3", "1h", func(p *corev1.Pod) { p.Spec.Priority = ptr.To[int32](100) })
		time.Sleep(20 * time.Minute)
		if j := w.Job("j"); clusters.Of(j) != "" || !job.Managed(j) {
			t.Errorf("handed over: %v %+v", j.Annotations, j.Status)
		}
	})
}
