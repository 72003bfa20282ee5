package jobsets_test

import (
	"bytes"
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// BenchmarkChain is what each group of a chain costs, in which each waits for the one before.
func BenchmarkChain(b *testing.B) {
	for _, groups := range []int{25, 50, 100, 200} {
		b.Run(fmt.Sprint(groups, "groups"), func(b *testing.B) { untilComplete(b, chain(groups, "0s"), groups) })
	}
}

// BenchmarkSet is what each Job of a JobSet costs, with its ten pods.
func BenchmarkSet(b *testing.B) {
	for _, jobs := range []int{250, 500, 1000, 2000} {
		b.Run(fmt.Sprint(jobs, "Jobs"), func(b *testing.B) { untilComplete(b, tenPods(jobs, "0s"), jobs) })
	}
}

// untilComplete runs a JobSet of so many Jobs in real time, and reports what each took of the processor, of memory and of the store.
func untilComplete(b *testing.B, spec string, jobs int) {
	var cpu time.Duration
	var allocated, revisions uint64
	for b.Loop() {
		b.StopTimer()
		w := controltest.New(b)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		began, first := used(b), w.Store.Version()
		b.StartTimer()
		js := w.CreateJobSet("s", spec)
		for done := false; !done; time.Sleep(5 * time.Millisecond) {
			if err := w.Store.View(func(s *store.Snapshot) error {
				o, _ := s.Get(objects.Key(objects.JobSets, js))
				done = bytes.Contains(o.Value, []byte("AllJobsCompleted"))
				return nil
			}); err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		cpu += used(b) - began
		runtime.ReadMemStats(&after)
		allocated, revisions = allocated+after.TotalAlloc-before.TotalAlloc, revisions+w.Store.Version()-first
		w.End()
		b.StartTimer()
	}
	n := float64(b.N * jobs)
	b.ReportMetric(float64(cpu.Microseconds())/1000/n, "cpu-ms/Job")
	b.ReportMetric(float64(allocated)/1024/n, "KiB/Job")
	b.ReportMetric(float64(revisions)/n, "revisions/Job")
}

// used is how long the processors have worked for this process.
func used(b *testing.B) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
