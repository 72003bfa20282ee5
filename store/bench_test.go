package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

var benchValue = make([]byte, 1500) // about what a pod takes

func benchUpdate(b *testing.B, s *Store, key string) {
	b.Helper()
	err := s.Update(context.Background(), func(tx *Tx) error {
		tx.Put(Object{Key: key, UID: "6dd9b5a0-9d4f-4cf1-8a4e-2a8f5c3b1a77", Owners: []string{"5b1f6f0e"}, Value: benchValue})
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkPut is one durable change after the other.
func BenchmarkPut(b *testing.B) {
	for _, objects := range []int{100, 100_000} {
		b.Run(fmt.Sprintf("objects=%d", objects), func(b *testing.B) {
			s := benchStore(b, objects, Options{})
			report := measure(b)
			for b.Loop() {
				benchUpdate(b, s, benchKey(rand.IntN(objects)))
			}
			report(b.N, "put")
		})
	}
}

// BenchmarkBolt is the raw limit: the same values put into a single bucket of bolt, one or many in a transaction.
func BenchmarkBolt(b *testing.B) {
	for _, puts := range []int{1, 64} {
		b.Run(fmt.Sprintf("puts=%d", puts), func(b *testing.B) {
			db, err := bolt.Open(filepath.Join(b.TempDir(), "bolt.db"), 0o600, boltOptions(Options{}))
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			put := func(n int, key func(int) string) {
				err := db.Update(func(tx *bolt.Tx) error {
					bucket, err := tx.CreateBucketIfNotExists([]byte("values"))
					for i := 0; err == nil && i < n; i++ {
						err = bucket.Put([]byte(key(i)), benchValue)
					}
					return err
				})
				if err != nil {
					b.Fatal(err)
				}
			}
			const objects = 10_000
			put(objects, benchKey)
			report := measure(b)
			b.ResetTimer()
			for range b.N {
				put(puts, func(int) string { return benchKey(rand.IntN(objects)) })
			}
			report(b.N*puts, "put")
		})
	}
}

// BenchmarkWriters is durable changes of writers that share commits.
func BenchmarkWriters(b *testing.B) {
	for _, writers := range []int{8, 64} {
		b.Run(fmt.Sprint(writers), func(b *testing.B) {
			s := benchStore(b, 1000, Options{})
			report := measure(b)
			var next atomic.Int64
			var wg sync.WaitGroup
			b.ResetTimer()
			for range writers {
				wg.Go(func() {
					for next.Add(1) <= int64(b.N) {
						benchUpdate(b, s, benchKey(rand.IntN(1000)))
					}
				})
			}
			wg.Wait()
			report(b.N, "put")
		})
	}
}

// BenchmarkTransaction is durable transactions of many changes, as the daemon's loop makes them.
func BenchmarkTransaction(b *testing.B) {
	for _, puts := range []int{64, 256, 1024, 4096} {
		b.Run(fmt.Sprintf("puts=%d", puts), func(b *testing.B) {
			const objects = 10_000
			s := benchStore(b, objects, Options{})
			report := measure(b)
			for b.Loop() {
				err := s.Update(context.Background(), func(tx *Tx) error {
					for range puts {
						tx.Put(Object{Key: benchKey(rand.IntN(objects)), UID: "u", Owners: []string{"5b1f6f0e"}, Value: benchValue})
					}
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
			}
			report(b.N*puts, "put")
		})
	}
}

// BenchmarkCursor is one reader of a log that is there.
func BenchmarkCursor(b *testing.B) {
	s := benchStore(b, 10_000, Options{})
	report := measure(b)
	c := s.Cursor(FirstVersion, "pods/")
	for n := 0; n < b.N; {
		changes, at, err := c.Next(context.Background(), 100)
		if err != nil {
			b.Fatal(err)
		}
		n += len(changes)
		if at == s.Version() {
			c = s.Cursor(FirstVersion, "pods/")
		}
	}
	report(b.N, "change")
}

// BenchmarkFanOut is one writer whose every change all of the readers get; and, for "idle", none of them.
func BenchmarkFanOut(b *testing.B) {
	for _, readers := range []int{1, 10, 100} {
		for _, prefix := range []string{"pods/", "idle/"} {
			b.Run(fmt.Sprintf("readers=%d/%s", readers, prefix[:4]), func(b *testing.B) {
				s := benchStore(b, 1000, Options{})
				report := measure(b)
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				last := s.Version() + uint64(b.N)
				var wg sync.WaitGroup
				b.ResetTimer()
				for range readers {
					c := s.Cursor(s.Version(), prefix)
					wg.Go(func() {
						for c.At() < last && ctx.Err() == nil {
							_, _, _ = c.Next(ctx, 100)
						}
					})
				}
				for range b.N {
					benchUpdate(b, s, benchKey(rand.IntN(1000)))
				}
				if prefix == "idle/" {
					cancel()
				}
				wg.Wait()
				report(b.N, "put")
			})
		}
	}
}

// BenchmarkRange reads all of 100,000 objects, which are there in no order of their versions.
func BenchmarkRange(b *testing.B) {
	const objects = 100_000
	s := benchStore(b, objects, Options{})
	for b.Loop() {
		n := 0
		err := s.View(func(sn *Snapshot) error { sn.Range("pods/", "", func(Object) bool { n++; return true }); return nil })
		if err != nil || n != objects {
			b.Fatal(n, err)
		}
	}
}

// BenchmarkOpen opens a store of 100,000 objects.
func BenchmarkOpen(b *testing.B) {
	s := benchStore(b, 100_000, Options{})
	for b.Loop() {
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		var err error
		if s, err = Open(s.path, Options{}); err != nil {
			b.Fatal(err)
		}
	}
	_ = s.Close()
}

func benchKey(i int) string { return fmt.Sprintf("pods/default/pi-%08x", uint32(i)*2654435761) }

func benchStore(b *testing.B, objects int, o Options) *Store {
	b.Helper()
	s := openAt(b, filepath.Join(b.TempDir(), "jobd.db"), o)
	s.bolt.NoSync = true
	for i := 0; i < objects; i += 500 {
		err := s.Update(context.Background(), func(tx *Tx) error {
			for j := range min(500, objects-i) {
				tx.Put(Object{Key: benchKey(i + j), UID: "6dd9b5a0-9d4f-4cf1-8a4e-2a8f5c3b1a77", Owners: []string{"5b1f6f0e"}, Value: benchValue})
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	s.bolt.NoSync = false
	b.ResetTimer()
	return s
}

// measure begins a measurement of throughput and of the processor's time, which tells more on a busy machine.
func measure(b *testing.B) (report func(n int, what string)) {
	cpu := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := cpu()
	return func(n int, what string) {
		b.ReportMetric(float64(n)/b.Elapsed().Seconds(), what+"s/s")
		b.ReportMetric(float64((cpu()-before).Microseconds())/float64(n), "cpu-us/"+what)
	}
}
