package image

import (
	"context"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/testdata/registry"
)

// usedBy makes users of images by their names.
func usedBy(names ...string) Users {
	return func(context.Context) (map[string]bool, error) {
		used := map[string]bool{}
		for _, n := range names {
			used[n] = true
		}
		return used, nil
	}
}

// full is a disk that has no room, roomy one that has.
func full() (Disk, error)  { return Disk{Capacity: 1000}, nil }
func roomy() (Disk, error) { return Disk{Capacity: 1000, Available: 1000}, nil }

// noise is content that cannot be compressed.
func noise(size int) string {
	r := rand.NewChaCha8([32]byte{1})
	b := make([]byte, size)
	_, _ = r.Read(b)
	return string(b)
}

// onDisk is what the files below a directory take, in bytes.
func onDisk(t *testing.T, dir string) (size int64) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return size
}

func TestCollect(t *testing.T) {
	r := registry.Start(t, registry.Options{})
	pull := func(i *Images, name string) string {
		full, _ := r.Push(t, small(t, name+noise(1000)), name+":1")
		ensure(t, i, full, corev1.PullIfNotPresent)
		return full
	}
	i := newImages(t, Options{})
	old, young, used, inContainer := pull(i, "old"), pull(i, "young"), pull(i, "used"), pull(i, "container")
	useByContainer(t, i, "c1", inContainer)
	if _, err := i.Import(t.Context(), small(t, "imported", "imported:1").Docker(), ""); err != nil {
		t.Fatal(err)
	}
	const imported = "docker.io/library/imported:1"
	collect := func(p GCPolicy, disk func() (Disk, error), users ...string) []string {
		t.Helper()
		done, err := i.Collect(t.Context(), p, usedBy(users...), disk)
		if err != nil {
			t.Fatal(err)
		}
		return done.Removed
	}
	threshold := GCPolicy{HighThreshold: 85, LowThreshold: 80}
	if got := collect(threshold, roomy, used); len(got) > 0 {
		t.Errorf("removed %s though the disk has room", got)
	}
	patient := threshold
	patient.MinAge = time.Hour
	if got := collect(patient, full, used); len(got) > 0 {
		t.Errorf("removed %s, which were pulled a moment ago", got)
	}
	ensure(t, i, old, corev1.PullIfNotPresent)
	if got := collect(threshold, full, used); !slices.Equal(got, []string{young, old}) {
		t.Errorf("removed %s, want what no pod, no container and nobody by hand has, in the order of their use", got)
	}
	i.forget()
	for name, here := range map[string]bool{old: false, young: false, used: true, inContainer: true, imported: true} {
		if _, err := i.Ensure(t.Context(), name, corev1.PullNever, nil, nil); (err == nil) != here || err != nil && !errdefs.IsNotFound(err) {
			t.Errorf("%s: %v, want here: %t", name, err, here)
		}
	}
	releaseByContainer(t, i, "c1")
	threshold.Imported = true
	collect(threshold, full)
	if left := leftovers(t, i); len(left) > 0 {
		t.Errorf("left when all are gone: %s", left)
	}
	ensure(t, i, old, corev1.PullIfNotPresent)
}

// Every spelling of an image is the image: its content goes when all may go, and stays while one of them may not.
func TestCollectTakesAllNamesOfAnImageOrNone(t *testing.T) {
	i := newImages(t, Options{})
	if _, err := i.Import(t.Context(), small(t, "names", "names:1", "names:2").Docker(), ""); err != nil {
		t.Fatal(err)
	}
	p := GCPolicy{HighThreshold: 85, LowThreshold: 80, Imported: true}
	if done, err := i.Collect(t.Context(), p, usedBy("docker.io/library/names:2"), full); err != nil || len(done.Removed) > 0 || !done.Short() {
		t.Errorf("one is in use: %+v, %v", done, err)
	}
	done, err := i.Collect(t.Context(), p, usedBy(), full)
	if err != nil || len(done.Removed) != 2 {
		t.Errorf("none is in use: %+v, %v", done, err)
	}
	if left := leftovers(t, i); len(left) > 0 {
		t.Errorf("left: %s", left)
	}
}

// An image that somebody asks for between the decision and its removal stays, and who asks while it goes waits for that.
func TestCollectAndEnsureAtTheSameTime(t *testing.T) {
	r := registry.Start(t, registry.Options{})
	name, _ := r.Push(t, small(t, "race"), "race:1")
	i := newImages(t, Options{})
	ensure(t, i, name, corev1.PullIfNotPresent)
	before := time.Now()
	ensure(t, i, name, corev1.PullIfNotPresent)
	if _, ok := i.beginRemoval([]string{name}, before); ok {
		t.Error("an image goes that somebody has asked for since")
	}
	gone, ok := i.beginRemoval([]string{name}, time.Now())
	if !ok {
		t.Fatal("an image stays that nobody asks for")
	}
	got := make(chan error, 1)
	go func() {
		_, err := i.Ensure(t.Context(), name, corev1.PullNever, nil, nil)
		got <- err
	}()
	if err := i.client.ImageService().Delete(inNamespace(t), name); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-got:
		t.Errorf("who asks while it goes gets %v", err)
	default:
	}
	gone()
	if err := <-got; !errdefs.IsNotFound(err) {
		t.Errorf("who has waited gets %v", err)
	}
}

func TestCollectedDiskIsFree(t *testing.T) {
	r := registry.Start(t, registry.Options{})
	name, _ := r.Push(t, small(t, noise(4<<20)), "big:1")
	root := t.TempDir()
	i := newImagesAt(t, root, Options{})
	ensure(t, i, name, corev1.PullIfNotPresent)
	before := onDisk(t, root)
	if _, err := i.Collect(t.Context(), GCPolicy{HighThreshold: 85, MaxAge: time.Nanosecond}, usedBy(), roomy); err != nil {
		t.Fatal(err)
	}
	if after := onDisk(t, root); before < 8<<20 || after > 1<<20 { // databases have grown meanwhile
		t.Errorf("its blob and its files took 8 MB: %d bytes before, %d after", before, after)
	}
}

// What a pull that failed has begun goes when the disk is too full, also if there is no image that could.
func TestCollectTakesWhatPullsHaveBegun(t *testing.T) {
	root := t.TempDir()
	i := newImagesAt(t, root, Options{})
	l := newLiar(t)
	const size = 1 << 20
	l.serve(t, small(t, "content"), func(m map[string]any, put func(string, []byte)) {
		layer := m["layers"].([]any)[0].(map[string]any)
		layer["size"] = 2 * size
		put("blobs/"+layer["digest"].(string), []byte(noise(size)))
	})
	if _, err := i.Ensure(t.Context(), l.name(), corev1.PullIfNotPresent, nil, nil); err == nil {
		t.Fatal("it is pulled")
	}
	if left := onDisk(t, root); left < size {
		t.Fatalf("nothing is left for the next pull: %d bytes", left)
	}
	used := func() int64 { return onDisk(t, root) }
	before := used()
	done, err := i.Collect(t.Context(), GCPolicy{HighThreshold: 90, LowThreshold: 80}, usedBy(), func() (Disk, error) {
		return Disk{Capacity: 10 * size, Available: max(0, before-used())}, nil
	})
	if left := onDisk(t, root); err != nil || left >= size/2 || done.Freed < size/2 { // the last bytes may not have come
		t.Errorf("%d bytes are left, %d are said to be freed: %v", left, done.Freed, err)
	}
}

// When an image was used is known after a restart too, to the hour.
func TestUseIsNoted(t *testing.T) {
	i := newImages(t, Options{})
	if _, err := i.Import(t.Context(), small(t, "noted", "noted:1").Docker(), ""); err != nil {
		t.Fatal(err)
	}
	const name = "docker.io/library/noted:1"
	service := i.client.ImageService()
	updated := func() time.Time {
		stored, err := service.Get(inNamespace(t), name)
		if err != nil {
			t.Fatal(err)
		}
		return stored.UpdatedAt
	}
	collect := func() {
		if _, err := i.Collect(t.Context(), GCPolicy{HighThreshold: 100}, usedBy(), roomy); err != nil {
			t.Fatal(err)
		}
	}
	first := updated()
	ensure(t, i, name, corev1.PullNever)
	collect()
	if !updated().Equal(first) {
		t.Error("a use soon after the last one costs a write")
	}
	i.mu.Lock()
	i.used[name] = first.Add(2 * usePrecision)
	i.mu.Unlock()
	collect()
	if !updated().After(first) {
		t.Error("a use is not noted")
	}
}
