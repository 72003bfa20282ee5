package storage

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

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
