package control_test

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/fairness"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// fairWorld is a machine of three CPUs whose queue is ordered by what everybody has used.
func fairWorld(t *testing.T, fair fairness.Policy) *world {
	w := small(t)
	w.Stop()
	w.Fair = &fair
	w.Start()
	return w
}

// by is a Job that somebody has created.
func (w *world) by(user string, j *batchv1.Job) {
	w.T.Helper()
	w.Create(j)
	w.Write(func(tx *store.Tx) error {
		tx.Put(store.Object{Key: storage.CreatorKey(objects.Key(objects.Jobs, j)), UID: string(j.UID), Value: []byte(user)})
		return nil
	})
	w.Stop()
	w.Start() // the loop may have seen the Job before it was known who has created it
}

// order returns the names of Jobs in the order in which their pods have started.
func (w *world) order() (names []string) {
	type start struct {
		at   time.Time
		name string
	}
	var all []start
	for _, p := range w.Pods() {
		if p.Status.StartTime != nil {
			all = append(all, start{p.Status.StartTime.Time, p.Labels[batchv1.JobNameLabel]})
		}
	}
	for len(all) > 0 {
		first := 0
		for i := range all {
			if all[i].at.Before(all[first].at) {
				first = i
			}
		}
		names = append(names, all[first].name)
		all = append(all[:first], all[first+1:]...)
	}
	return names
}

// TestBobsJobComesSecond has alice create twelve Jobs that each take the machine, and then bob one.
func TestBobsJobComesSecond(t *testing.T) {
	for name, fair := range map[string]bool{"fair": true, "by age": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := small(t)
				w.Stop()
				if fair {
					w.Fair = &fairness.Policy{HalfLife: time.Hour, ByCreator: true}
				}
				w.Start()
				defer w.End()
				for i := range 12 {
					j := suspended(asking(fmt.Sprint("alice", i), "3", "1m"))
					w.by("alice", j)
				}
				w.by("bob", suspended(asking("bob", "3", "1m")))
				for i := range 12 {
					w.resume(fmt.Sprint("alice", i))
				}
				w.resume("bob")
				time.Sleep(20 * time.Minute)
				place := 0
				for i, name := range w.order() {
					if name == "bob" {
						place = i + 1
					}
				}
				if want := map[bool]int{true: 2, false: 13}[fair]; place != want {
					t.Errorf("bob's is number %d, want %d: %v", place, want, w.order())
				}
			})
		})
	}
}

// suspended is a Job as it is created when it is not to start yet: who has created it is known before it has pods, as by the API.
func suspended(j *batchv1.Job) *batchv1.Job {
	yes := true
	j.Spec.Suspend = &yes
	return j
}

func (w *world) resume(name string) {
	j := w.Job(name)
	no := false
	j.Spec.Suspend = &no
	w.Put(objects.Key(objects.Jobs, j), j)
}

// TestUseSurvivesRestarts compares what everybody has used with a daemon that goes on.
func TestUseSurvivesRestarts(t *testing.T) {
	used := map[bool]float64{}
	for _, restarts := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := fairWorld(t, fairness.Policy{HalfLife: time.Hour})
			defer w.End()
			ns := &corev1.Namespace{}
			ns.Name, ns.Annotations = "default", map[string]string{core.ShareAnnotation: "2"}
			w.Put(store.Key(objects.Namespaces, "", "default"), ns)
			w.Create(asking("long", "1500m", "40m"))
			for range 8 {
				time.Sleep(10 * time.Minute)
				if restarts {
					w.Stop()
					w.Start()
				}
			}
			synctest.Wait()
			all, err := w.Control.Shares(t.Context())
			if err != nil || len(all) != 1 || all[0].Share != 2 || all[0].Name != "namespace default" || all[0].Running != 0 {
				t.Fatalf("%+v %v", all, err)
			}
			used[restarts] = all[0].Used
		})
	}
	// Half of the machine for 40 minutes, and 40 minutes after that.
	lambda := math.Ln2 / 3600
	want := 0.5 / lambda * (1 - math.Exp(-lambda*2400)) * math.Exp(-lambda*2400)
	for restarts, got := range used {
		if math.Abs(got-want) > want/100 {
			t.Errorf("restarts %v: %v seconds, want %v", restarts, got, want)
		}
	}
}
