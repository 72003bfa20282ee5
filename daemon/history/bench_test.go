package history

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/uuid"

	wire "github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/store"
)

// BenchmarkMillionJobs measures how much disk the history of a million Jobs takes, and how long answers take, in processor
// time: the median and the slowest of the pages of each search. They may only be read from memory.
func BenchmarkMillionJobs(b *testing.B) {
	const jobs, batch = 1_000_000, 50
	r := newRig(b, Limits{1e6 * time.Hour, 1 << 40})
	source := rand.New(rand.NewPCG(1, 2))
	for i := 0; i < jobs; i += batch {
		some := make([]wire.Job, batch)
		for k := range some {
			some[k] = usual(source, i+k)
		}
		r.append(some...)
	}
	var stored int64
	for _, p := range slices.Concat(r.log.blocks, r.log.pending) {
		stored += p.size
	}
	_, _, err := r.store.Compact(context.Background())
	must(b, err)
	info, err := os.Stat(r.store.Path())
	must(b, err)
	b.ReportMetric(float64(info.Size())/1e6, "MB")
	b.ReportMetric(float64(stored)/jobs, "bytes/Job")
	ask := func(name string, q wire.Query) {
		var took []time.Duration
		found := 0
		for {
			begin := processorTime(b)
			must(b, r.store.View(func(s *store.Snapshot) error {
				page, next, err := Read(s, q)
				found += len(page)
				q.Continue = next
				return err
			}))
			took = append(took, processorTime(b)-begin)
			if q.Continue == "" || found >= 5000 || len(took) == 100 {
				break
			}
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/"+name)
		b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "max-ms/"+name)
	}
	for range b.N {
		ask("newest", wire.Query{Limit: 100})
		ask("name", wire.Query{Namespace: "team-3", Name: "train-123456"})
		ask("user", wire.Query{User: "jobd:uid:1003"})
		none, err := labels.Parse("app=none")
		must(b, err)
		ask("nothing", wire.Query{Labels: none})
		not, err := labels.Parse("app!=train,app!=report,app!=backup")
		must(b, err)
		ask("not-in-a-block", wire.Query{Labels: not})
	}
}

// processorTime returns how long this process has been on a processor.
func processorTime(b *testing.B) time.Duration {
	var u unix.Rusage
	must(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// usual is a Job as there are many.
func usual(r *rand.Rand, i int) wire.Job {
	app := []string{"train", "report", "backup"}[i%3]
	name := fmt.Sprintf("%s-%d", app, i)
	created := begin.Add(time.Duration(i) * 7 * time.Second)
	use := wire.Use{CPUSeconds: float64(r.IntN(600_000)) / 1000, PeakMemory: int64(r.IntN(1<<18)) << 12}
	started := metav1.NewTime(created.Add(time.Second))
	ended := metav1.NewTime(started.Add(time.Duration(r.IntN(600)) * time.Second))
	asked := wire.Resources{CPURequest: float64(1 + i%3), MemoryRequest: int64(1+i%3) << 30, MemoryLimit: int64(1+i%3) << 30}
	j := wire.Job{
		Namespace: fmt.Sprint("team-", i%5), Name: name, UID: string(uuid.NewUUID()), User: fmt.Sprint("jobd:uid:", 1000+i%7),
		Labels:  map[string]string{"app": app},
		Created: metav1.NewTime(created), Started: &started, Ended: ended, Result: wire.Complete, Reason: "CompletionsReached",
		Use: use, Asked: asked, PodSeconds: ended.Sub(started.Time).Seconds(), Succeeded: 1, ExitCodes: []wire.ExitCode{{Code: 0, Count: 1}},
	}
	pod := wire.Pod{
		Name: name + "-" + utilrand.String(5), Started: &started, Ended: ended, Result: wire.PodSucceeded, Use: use,
		Containers: []wire.Container{{Name: "main", Use: use, Asked: asked}},
	}
	if i%10 == 0 { // one pod has failed
		failed := pod
		failed.Name, failed.Result, failed.Reason = name+"-"+utilrand.String(5), wire.PodFailed, "Error"
		failed.Containers = []wire.Container{{Name: "main", ExitCode: 1, Reason: "Error", Use: use, Asked: asked}}
		j.Pods, j.Failed, j.Retries = append(j.Pods, failed), 1, 1
		j.ExitCodes = append(j.ExitCodes, wire.ExitCode{Code: 1, Count: 1})
	}
	j.Pods = append(j.Pods, pod)
	return j
}
