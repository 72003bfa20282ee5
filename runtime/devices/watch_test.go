package devices

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Files that appear and vanish are noticed, also where the directory does not exist at first, or is made anew; and a pod
// that was to have a device which is gone waits for it.
func TestDevicesComeAndGo(t *testing.T) {
	base := t.TempDir()
	specs, other := filepath.Join(base, "run", "cdi"), filepath.Join(base, "etc")
	if err := os.Mkdir(other, 0o755); err != nil {
		t.Fatal(err)
	}
	d, err := Open(Options{
		Dir: filepath.Join(base, "devices"), SpecDirs: []string{other, specs}, Logger: slog.New(slog.DiscardHandler),
		Missed: func(name corev1.ResourceName) (bool, error) { return name == kind, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	changed := make(chan struct{}, 100)
	var watching sync.WaitGroup
	watching.Go(func() { d.Watch(ctx, func() { changed <- struct{}{} }) })
	defer watching.Wait()
	defer cancel()
	until := func(want int64) {
		t.Helper()
		for {
			if n := d.Capacity()[kind]; n.Value() == want {
				return
			}
			<-changed
		}
	}
	write := func(dir, content string) {
		t.Helper()
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "gpu.yaml"), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const one = `{cdiVersion: 0.6.0, kind: vendor.com/gpu, devices: [{name: one, containerEdits: {env: [GPU=one]}}]}`
	done := make(chan error)
	go func() {
		_, err := d.SetUp(ctx, asking(t, "waits", "1"), atOnce)
		done <- err
	}()
	write(specs, one)
	until(1)
	if err := <-done; err != nil {
		t.Error(err)
	}
	write(other, offer)
	until(6)
	for _, dir := range []string{specs, other} {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	until(0)
	write(other, offer)
	until(5)
	write(specs, one)
	until(6)
}
