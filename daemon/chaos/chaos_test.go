package chaos

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

var (
	seeds = flag.Uint64("seeds", 4, "how many plans are carried out")
	first = flag.Uint64("first", 0, "the seed of the first one")
	steps = flag.Int("steps", 60, "how many steps a plan has")
	short = flag.Bool("shorten", false, "make a plan that breaks a rule shorter")
)

// TestWhateverFails carries out plans. Of one that breaks a rule it says the shortest part that it has found which does so, too.
func TestWhateverFails(t *testing.T) {
	var total figures
	for seed := *first; seed < *first+*seeds; seed++ {
		plan := draw(seed, *steps)
		broken, tried := carryOut(t, seed, plan)
		total.add(tried)
		if len(broken) == 0 {
			continue
		}
		if *short {
			plan = shorten(plan, func(plan []step) bool {
				got, _ := carryOut(t, seed, plan)
				return len(got) > 0
			})
		}
		t.Errorf("seed %d breaks rules:\n%s\nwith the plan %v", seed, strings.Join(broken[:min(len(broken), 5)], "\n"), plan)
	}
	t.Logf("%d plans: %v", *seeds, total)
}

// shorten leaves out parts of a plan as long as it still breaks a rule. What is left to chance besides may hide that: a part is tried twice.
func shorten(plan []step, breaks func([]step) bool) []step {
	for size := len(plan) / 2; size > 0; size /= 2 {
		for at := 0; at+size <= len(plan); {
			less, does := slices.Concat(plan[:at], plan[at+size:]), false
			for range 2 {
				does = does || breaks(less)
			}
			if does {
				plan = less
			} else {
				at += size
			}
		}
	}
	return plan
}

// carryOut carries out a plan in a bubble of its own, and returns which rules were broken, and how much was tried.
func carryOut(t *testing.T, seed uint64, plan []step) (broken []string, tried figures) {
	t.Run(fmt.Sprint(seed), func(t *testing.T) {
		d := newDisk(t)
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			u := newUniverse(t, seed, d)
			defer func() { // a test that is given up in between is to say so, and not that goroutines are left
				u.total.time = time.Since(began)
				u.End()
				broken, tried = u.broken, u.total
			}()
			for _, s := range plan {
				u.do(s)
			}
			u.comeToRest()
		})
	})
	return broken, tried
}

// comeToRest lets all go well, until everything has come to its end, and holds what is left against the rules.
func (u *universe) comeToRest() {
	u.mu.Lock()
	u.faults, u.full, u.crashIn = faults{}, false, -1
	u.mu.Unlock()
	if err := u.disk.empty(); err != nil {
		u.T.Fatal(err)
	}
	ctx := context.Background()
	u.said(u.client.CoreV1().ResourceQuotas("default").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	u.said(u.client.BatchV1().CronJobs("default").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	for _, name := range u.jobSets() {
		u.suspendJobSet(name, false)
	}
	u.letGo()
	u.sleep(10 * time.Hour)
	u.letGo() // those that waited for others
	u.sleep(100 * time.Hour)
	jobs, err := u.client.BatchV1().Jobs("").List(ctx, metav1.ListOptions{})
	if u.said(err); err != nil {
		return
	}
	for i := range jobs.Items {
		j := &jobs.Items[i]
		if waits := batch.Awaits(j) || j.Spec.Parallelism != nil && *j.Spec.Parallelism == 0; batch.End(&j.Status) == nil && !waits {
			u.violated("job %s has not ended: %v %s", j.Name, j.Annotations, asJSON(j.Status))
		}
	}
	u.watch.counts()
	for _, name := range u.jobSets() {
		u.said(u.deleteJobSet(name))
	}
	background := metav1.DeletePropagationBackground
	for i := range jobs.Items {
		u.said(u.client.BatchV1().Jobs(jobs.Items[i].Namespace).Delete(ctx, jobs.Items[i].Name, metav1.DeleteOptions{PropagationPolicy: &background}))
	}
	u.said(u.client.CoreV1().Pods("default").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	u.dropOrphans()
	u.sleep(time.Hour)
	u.nothingIsLeft()
}

// dropOrphans deletes the groups of pods whose Jobs were deleted without them.
func (u *universe) dropOrphans() {
	ctx, api := context.Background(), u.client.SchedulingV1beta1()
	groups, err := api.PodGroups("default").List(ctx, metav1.ListOptions{})
	if u.said(err); err != nil {
		return
	}
	for i := range groups.Items {
		if g := &groups.Items[i]; metav1.GetControllerOfNoCopy(g) == nil {
			u.said(api.PodGroups(g.Namespace).Delete(ctx, g.Name, metav1.DeleteOptions{}))
		}
	}
	workloads, err := api.Workloads("default").List(ctx, metav1.ListOptions{})
	if u.said(err); err != nil {
		return
	}
	for i := range workloads.Items {
		if w := &workloads.Items[i]; metav1.GetControllerOfNoCopy(w) == nil {
			u.said(api.Workloads(w.Namespace).Delete(ctx, w.Name, metav1.DeleteOptions{}))
		}
	}
}

// letGo ends what holds Jobs back by somebody's wish.
func (u *universe) letGo() {
	ctx := context.Background()
	jobs, err := u.client.BatchV1().Jobs("").List(ctx, metav1.ListOptions{})
	if u.said(err); err != nil {
		return
	}
	for i := range jobs.Items {
		j := &jobs.Items[i]
		if batch.End(&j.Status) != nil || j.DeletionTimestamp != nil {
			continue
		}
		spec := `"suspend":false`
		if batch.Awaits(j) {
			spec = ""
		}
		if j.Spec.Parallelism != nil && *j.Spec.Parallelism == 0 {
			spec = strings.Trim(spec+`,"parallelism":1`, ",")
		}
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:null}},"spec":{%s}}`, batch.PausedAnnotation, spec)
		_, err := u.client.BatchV1().Jobs(j.Namespace).Patch(ctx, j.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		u.said(err)
	}
}

// nothingIsLeft: of Jobs that are gone, and of their pods, nothing remains in the store nor in the runtime.
func (u *universe) nothingIsLeft() {
	held, err := u.Runtime.Containers(context.Background())
	if err != nil || len(held) > 0 {
		u.violated("%d containers are left: %v %v", len(held), held, err)
	}
	_ = u.Store.View(func(s *store.Snapshot) error {
		for _, resource := range []string{
			objects.JobSets, objects.Jobs, objects.Pods, objects.PodGroups, objects.Workloads, objects.Claims, objects.Volumes,
			objects.Accounts, objects.Usages,
		} {
			s.Keys(resource+"/", "", func(key string) bool {
				u.violated("%s is left", key)
				return true
			})
		}
		return nil
	})
	u.watch.look()
	ended := map[string]int{}
	list, err := u.client.BatchV1().RESTClient().Get().AbsPath("/apis/history.jobd.dev/v1/jobs").DoRaw(context.Background())
	if u.said(err); err != nil {
		return
	}
	for uid, rec := range u.watch.jobs {
		if ended[uid] = strings.Count(string(list), `"uid":"`+uid+`"`); ended[uid] > 1 && !rec.meddled {
			u.violated("job %s is in the history %d times", rec.name, ended[uid])
		}
	}
}
