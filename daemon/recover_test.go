package daemon

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/store"
)

func TestWhatACrashLeavesOfGoneObjectsIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		w.create(simulate("j", "1h", "0"))
		living := w.pods()[0]
		gone := living.DeepCopy()
		gone.Name, gone.UID = "gone", "uid-of-gone"
		renewed := living.DeepCopy() // the name is there again, the pod is not
		renewed.UID = "older"
		logs := newKeptLogs(podLogs{dir: t.TempDir(), store: w.store}, time.Hour, 1<<20, slog.New(slog.DiscardHandler))
		ended := living.DeepCopy() // its Job is still there
		ended.Name, ended.UID = "ended", "uid-of-ended"
		for _, p := range []*corev1.Pod{living, ended} {
			if err := logs.Begin(p, "c", 0); err != nil {
				t.Fatal(err)
			}
		}
		all := []*corev1.Pod{living, ended, gone, renewed}
		for _, p := range all {
			path := logs.Path(p, "c", 0)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("x"), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		j := w.job("j")
		kept, left := memoryKey(j), store.Key(memories, "default", "gone")
		w.write(func(tx *store.Tx) error {
			tx.Put(store.Object{Key: kept, UID: string(j.UID), Value: []byte("{}")})
			tx.Put(store.Object{Key: left, UID: "gone", Value: []byte("{}")})
			return nil
		})
		w.stop()
		w.start()
		logs.store = w.store
		if err := logs.load(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			if _, err := os.Stat(logs.podDir(p)); (err == nil) != (p == living || p == ended) {
				t.Errorf("logs of %s %s: %v", p.Name, p.UID, err)
			}
		}
		_ = w.store.View(func(s *store.Snapshot) error {
			if _, ok := s.Get(kept); !ok {
				t.Error("the memory of a living Job is gone")
			}
			if _, ok := s.Get(left); ok {
				t.Error("the memory of a Job that is gone is still there")
			}
			return nil
		})
	})
}
