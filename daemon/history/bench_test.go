package history

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/store"
)

// BenchmarkMillionJobs measures how much disk the history of a million Jobs takes, and how long answers take, the slowest
// page of each. It runs once, whatever b.N is.
func BenchmarkMillionJobs(b *testing.B) {
	const jobs, batch = 1_000_000, 50
	r := newRig(b, Limits{1e6 * time.Hour, 1 << 40})
	source := rand.New(rand.NewPCG(1, 2))
	for i := 0; i < jobs; i += batch {
		some := make([]history.Job, batch)
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
	ask := func(name string, q Query) {
		worst, found := time.Duration(0), 0
		for {
			begin := time.Now()
			must(b, r.store.View(func(s *store.Snapshot) error {
				page, next, err := Read(s, q)
				found += len(page)
				q.Continue = next
				return err
			}))
			worst = max(worst, time.Since(begin))
			if q.Continue == "" || found >= 5000 {
				break
			}
		}
		b.ReportMetric(float64(worst.Microseconds())/1000, "ms/"+name)
	}
	for range b.N {
		ask("newest", Query{Limit: 100})
		ask("name", Query{Namespace: "team-3", Name: "train-123456"})
		ask("user", Query{User: "jobd:uid:1003"})
		none, err := labels.Parse("app=none")
		must(b, err)
		ask("nothing", Query{Labels: none})
		not, err := labels.Parse("app!=train,app!=report,app!=backup")
		must(b, err)
		ask("not-in-a-block", Query{Labels: not})
	}
}

// usual is a Job as there are many.
func usual(r *rand.Rand, i int) history.Job {
	app := []string{"train", "report", "backup"}[i%3]
	name := fmt.Sprintf("%s-%d", app, i)
	created := begin.Add(time.Duration(i) * 7 * time.Second)
	use := history.Use{CPUSeconds: float64(r.IntN(600_000)) / 1000, PeakMemory: int64(r.IntN(1<<18)) << 12}
	started := metav1.NewTime(created.Add(time.Second))
	ended := metav1.NewTime(started.Add(time.Duration(r.IntN(600)) * time.Second))
	j := history.Job{
		Namespace: fmt.Sprint("team-", i%5), Name: name, UID: string(uuid.NewUUID()), User: fmt.Sprint("jobd:uid:", 1000+i%7),
		Labels:  map[string]string{"app": app},
		Created: metav1.NewTime(created), Started: &started, Ended: ended, Result: history.Complete, Reason: "CompletionsReached",
		Use: use, Succeeded: 1, ExitCodes: []history.ExitCode{{Code: 0, Count: 1}},
	}
	pod := history.Pod{
		Name: name + "-" + utilrand.String(5), Started: &started, Ended: ended, Result: history.PodSucceeded, Use: use,
		Containers: []history.Container{{Name: "main", Use: use}},
	}
	if i%10 == 0 { // one attempt has failed
		failed := pod
		failed.Name, failed.Result, failed.Reason = name+"-"+utilrand.String(5), history.PodFailed, "Error"
		failed.Containers = []history.Container{{Name: "main", ExitCode: 1, Reason: "Error", Use: use}}
		j.Pods, j.Failed, j.Retries = append(j.Pods, failed), 1, 1
		j.ExitCodes = append(j.ExitCodes, history.ExitCode{Code: 1, Count: 1})
	}
	j.Pods = append(j.Pods, pod)
	return j
}
