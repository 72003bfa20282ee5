package storage

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/storage"

	"github.com/jobd/jobd/store"
)

func benchPod(name string) *corev1.Pod {
	p := pod(name, map[string]string{"batch.kubernetes.io/job-name": "pi", "app": "pi"})
	p.Annotations = map[string]string{"filler": strings.Repeat("x", 600)}
	p.Spec.Containers = []corev1.Container{{Name: "pi", Image: "perl:5.34.0", Command: []string{"perl", "-Mbignum=bpi", "-wle", "print bpi(2000)"}}}
	return p
}

// BenchmarkCreate measures durable creations by clients that wait for each.
func BenchmarkCreate(b *testing.B) {
	for _, clients := range []int{1, 8} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			s := newPods(openStore(b, filepath.Join(b.TempDir(), "jobd.db"), store.Options{}))
			var n atomic.Int64
			var wg sync.WaitGroup
			b.ResetTimer()
			for range clients {
				wg.Go(func() {
					for i := n.Add(1); i <= int64(b.N); i = n.Add(1) {
						name := fmt.Sprintf("pi-%d", i)
						if err := s.Create(context.Background(), podKey(name), benchPod(name), &corev1.Pod{}, 0); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "creates/s")
		})
	}
}

// BenchmarkList decodes 5,000 pods.
func BenchmarkList(b *testing.B) {
	s := pods(b)
	for i := range 5000 {
		create(b, s, benchPod(fmt.Sprintf("pi-%d", i)))
	}
	for b.Loop() {
		list := &corev1.PodList{}
		err := s.GetList(context.Background(), "/pods", storage.ListOptions{Recursive: true, Predicate: storage.Everything}, list)
		if err != nil || len(list.Items) != 5000 {
			b.Fatal(len(list.Items), err)
		}
	}
}

// BenchmarkWatch measures changes that every watcher decodes and delivers.
func BenchmarkWatch(b *testing.B) {
	for _, watchers := range []int{1, 10} {
		b.Run(fmt.Sprintf("watchers=%d", watchers), func(b *testing.B) {
			s := pods(b)
			create(b, s, benchPod("a"))
			var wg sync.WaitGroup
			b.ResetTimer()
			for range watchers {
				w := startWatch(b, context.Background(), s, storage.ListOptions{ResourceVersion: "2", Predicate: storage.Everything})
				wg.Go(func() {
					for range b.N {
						<-w.ResultChan()
					}
				})
			}
			for range b.N {
				update(b, s, "a", func(p *corev1.Pod) { p.Generation++ })
			}
			wg.Wait()
			b.ReportMetric(float64(b.N*watchers)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkListOfOneJob lists the ten pods of one Job among 100,000, as the first reader and as those after it, and says what that takes in
// memory for each pod. Without words all are looked at.
func BenchmarkListOfOneJob(b *testing.B) {
	const jobs, each = 10_000, 10
	name := func(i int) string { return fmt.Sprintf("job-%06d", i) }
	fill := func(b *testing.B, words store.Words) *Storage {
		db, err := store.Open(filepath.Join(b.TempDir(), "jobd.db"), store.Options{NoSync: true, Words: words})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = db.Close() })
		s := newPods(db)
		for job := 0; job < jobs; job += 100 {
			if err := db.Update(context.Background(), func(tx *store.Tx) error {
				for i := range 100 * each {
					p := benchPod(fmt.Sprintf("%s-%d-abcde", name(job+i/each), i%each))
					uid := fmt.Sprintf("a3c5f1d2-0b6e-4a4e-9d43-%012d", job+i/each)
					p.Labels = map[string]string{
						"batch.kubernetes.io/controller-uid": uid, "controller-uid": uid,
						"batch.kubernetes.io/job-name": name(job + i/each), "job-name": name(job + i/each),
						"batch.kubernetes.io/job-completion-index": fmt.Sprint(i % each),
					}
					o, err := s.encode(store.Key("pods", "default", p.Name), p)
					if err != nil {
						return err
					}
					tx.Put(o)
				}
				return nil
			}); err != nil {
				b.Fatal(err)
			}
		}
		return s
	}
	list := func(b *testing.B, s *Storage, job int) {
		list := &corev1.PodList{}
		opts := storage.ListOptions{Recursive: true, Predicate: selecting("batch.kubernetes.io/job-name=" + name(job))}
		if err := s.GetList(context.Background(), "/pods/default/", opts, list); err != nil || len(list.Items) != each {
			b.Fatal(len(list.Items), err)
		}
	}
	heap := func() float64 {
		for range 3 { // until what the store has let go of is gone, too
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	b.Run("without words", func(b *testing.B) {
		s := fill(b, nil)
		for i := 0; b.Loop(); i++ {
			list(b, s, i*61%jobs)
		}
	})
	b.Run("with words", func(b *testing.B) {
		s := fill(b, Words)
		if err := s.store.View(func(sn *store.Snapshot) error { // so that the file is in memory
			sn.Range("", "", func(store.Object) bool { return true })
			return nil
		}); err != nil {
			b.Fatal(err)
		}
		before, begin := heap(), time.Now()
		list(b, s, 1)
		first := time.Since(begin)
		took := heap() - before
		for i := 0; b.Loop(); i++ {
			list(b, s, i*61%jobs)
		}
		b.ReportMetric(float64(first.Microseconds())/1000, "ms-first")
		b.ReportMetric(took/(jobs*each), "B/pod")
	})
}
