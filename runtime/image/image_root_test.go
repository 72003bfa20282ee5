package image

import (
	"context"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/typeurl/v2"
	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"
)

func inNamespace(t testing.TB) context.Context {
	return namespaces.WithNamespace(t.Context(), namespace)
}

func useByContainer(t *testing.T, i *Images, id, name string) {
	t.Helper()
	spec, err := typeurl.MarshalAny(&specs.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = i.client.ContainerService().Create(inNamespace(t), containers.Container{
		ID: id, Image: name, Spec: spec, Runtime: containers.RuntimeInfo{Name: "none"}})
	if err != nil {
		t.Fatal(err)
	}
}

func releaseByContainer(t *testing.T, i *Images, id string) {
	t.Helper()
	if err := i.client.ContainerService().Delete(inNamespace(t), id); err != nil {
		t.Fatal(err)
	}
}

// collect runs containerd's garbage collector.
func collect(t *testing.T, i *Images) {
	t.Helper()
	m := i.client.LeasesService()
	l, err := m.Create(inNamespace(t), leases.WithRandomID())
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Delete(inNamespace(t), l, leases.SynchronousDelete); err != nil {
		t.Fatal(err)
	}
}

// leftovers lists blobs and snapshots.
func leftovers(t *testing.T, i *Images) []string {
	t.Helper()
	var left []string
	ctx := inNamespace(t)
	if err := i.client.ContentStore().Walk(ctx, func(info content.Info) error {
		left = append(left, info.Digest.String())
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := i.client.SnapshotService(i.options.Snapshotter).Walk(ctx, func(_ context.Context, info snapshots.Info) error {
		left = append(left, info.Name)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return left
}

func TestImagesSurviveTheCollector(t *testing.T) {
	i := newImages(t, Options{})
	img := small(t, "kept", "kept:1", "kept:2")
	if _, err := i.Import(t.Context(), img.Docker(), ""); err != nil {
		t.Fatal(err)
	}
	if err := i.Remove(t.Context(), "kept:1"); err != nil {
		t.Fatal(err)
	}
	collect(t, i)
	i.forget()
	got := ensure(t, i, "kept:2", corev1.PullNever)
	if _, err := i.client.SnapshotService(i.options.Snapshotter).Stat(inNamespace(t), got.ChainID); err != nil {
		t.Error(err)
	}
}

func TestNothingIsLeftOfAFailedImport(t *testing.T) {
	i := newImages(t, Options{})
	if _, err := i.Import(t.Context(), small(t, "nameless").Docker(), ""); err == nil {
		t.Fatal("imported an image without a name")
	}
	collect(t, i)
	if left := leftovers(t, i); len(left) > 0 {
		t.Errorf("left: %s", left)
	}
}

func TestAnImageThatIsNotUnpackedIsUnpackedWhenNeeded(t *testing.T) {
	i := newImages(t, Options{})
	if _, err := i.client.Import(inNamespace(t), small(t, "packed", "packed:1").Docker()); err != nil {
		t.Fatal(err)
	}
	got := ensure(t, i, "packed:1", corev1.PullNever)
	if _, err := i.client.SnapshotService(i.options.Snapshotter).Stat(inNamespace(t), got.ChainID); err != nil {
		t.Error(err)
	}
}

func TestWatchSeesWhatOthersChange(t *testing.T) {
	i := newImages(t, Options{})
	if _, err := i.Import(t.Context(), small(t, "watched", "watched:1").Docker(), ""); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	watched := make(chan error, 1)
	go func() { watched <- i.Watch(ctx) }()
	service := i.client.ImageService()
	stored, err := service.Get(inNamespace(t), "docker.io/library/watched:1")
	if err != nil {
		t.Fatal(err)
	}
	until := func(what string, done func() bool) {
		for start := time.Now(); !done(); time.Sleep(5 * time.Millisecond) {
			if time.Since(start) > time.Minute {
				t.Fatal("not seen: " + what)
			}
		}
	}
	before := i.now()
	until("any change", func() bool {
		_, _ = service.Update(inNamespace(t), stored) // again, until Watch has subscribed
		return i.now() > before
	})
	ensure(t, i, stored.Name, corev1.PullNever)
	if err := service.Delete(inNamespace(t), stored.Name); err != nil {
		t.Fatal(err)
	}
	until("the removal", func() bool {
		_, err := i.Ensure(t.Context(), stored.Name, corev1.PullNever, nil, nil)
		return err != nil
	})
	cancel()
	if err := <-watched; err != nil {
		t.Error(err)
	}
}

func BenchmarkEnsure(b *testing.B) {
	i := newImages(b, Options{})
	if _, err := i.Import(b.Context(), small(b, "bench", "bench:1").Docker(), ""); err != nil {
		b.Fatal(err)
	}
	b.Run("known", func(b *testing.B) {
		for b.Loop() {
			if _, err := i.Ensure(b.Context(), "bench:1", corev1.PullIfNotPresent, nil, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("after a change", func(b *testing.B) {
		for b.Loop() {
			i.forget()
			if _, err := i.Ensure(b.Context(), "bench:1", corev1.PullIfNotPresent, nil, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}
