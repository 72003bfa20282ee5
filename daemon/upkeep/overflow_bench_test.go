package upkeep

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/jobd/jobd/daemon/loop"
)

// Of Jobs that go to no cluster, which are all where nobody has asked for it, the concern keeps nothing.
func BenchmarkOverflowOfOtherJobs(b *testing.B) {
	c, j := NewOverflow(&loop.Timers{}, nil), &batchv1.Job{}
	b.ReportAllocs()
	for b.Loop() {
		c.JobRecovered("jobs.batch/default/j", j)
		if err := c.JobChanged(nil, "jobs.batch/default/j", j); err != nil {
			b.Fatal(err)
		}
	}
}
