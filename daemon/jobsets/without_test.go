package jobsets

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/store"
)

// A daemon without JobSets costs what it cost: a Job that none controls allocates nothing here, leaves nothing, and wakes nobody.
func TestWithoutJobSets(t *testing.T) {
	c := New(nil, nil, nil, nil, nil, nil, nil, nil, nil)
	cron := metav1.OwnerReference{APIVersion: "batch/v1", Kind: "CronJob", Name: "c", UID: "c", Controller: new(bool)}
	*cron.Controller = true
	for name, owners := range map[string][]metav1.OwnerReference{"nobody's": nil, "a CronJob's": {cron}} {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "j", UID: types.UID("u"), OwnerReferences: owners}}
		gone := store.Object{Key: "jobs.batch/n/j", UID: "u"}
		if allocated := testing.AllocsPerRun(100, func() {
			c.JobRecovered("", j)
			if err := c.JobChanged(nil, "", j); err != nil {
				t.Fatal(err)
			}
			c.JobGone(nil, "", j)
			c.Gone(nil, gone)
			c.QuotaFreed(nil, "n")
			if err := c.Fold(nil, loop.Change{Resource: "jobs.batch", Change: store.Change{Object: gone}}); err != nil {
				t.Fatal(err)
			}
		}); allocated > 0 {
			t.Errorf("%s Job allocates %v times", name, allocated)
		}
	}
	if c.Dirty() || len(c.known)+c.Len() > 0 {
		t.Errorf("it knows %v and %v", c.known, c.Len())
	}
	if worked, err := c.Settle(&loop.Pass{Now: time.Now()}); worked || err != nil {
		t.Errorf("it works: %v", err)
	}
}
