package disk

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/runtime/image"
	"github.com/jobd/jobd/store"
)

// A disk that is full of what is no image is said to be so once in a while, not at each look.
func TestShortageIsToldRarely(t *testing.T) {
	var s shortage
	begin := time.Now()
	room, full := image.Collected{}, image.Collected{Wanted: 10}
	some := image.Collected{Wanted: 10, Freed: 5, Removed: []string{"a"}}
	for _, c := range []struct {
		rule   string
		minute int
		done   image.Collected
		told   int // by how many events
	}{
		{"there is room", 0, room, 0},
		{"there is none", 5, full, 1},
		{"there is still none", 10, full, 2},
		{"it stays so", 15, full, 0},
		{"something went, but not enough", 20, some, 2},
		{"it stays so", 75, full, 0},
		{"it was said long ago", 80, full, 2},
		{"there is room again", 85, room, 0},
		{"there is none again", 90, full, 1},
	} {
		told := s.reasons(c.done, begin.Add(time.Duration(c.minute)*time.Minute), time.Hour)
		if want := []string{"FreeDiskSpaceFailed", "ImageGCFailed"}[:c.told]; !slices.Equal(told, want) {
			t.Errorf("%s: told %q", c.rule, told)
		}
	}
}

func TestAFullDiskIsToldInAKubeletsWords(t *testing.T) {
	got := tooFull(image.Collected{
		Before: image.Disk{Capacity: 10 << 30, Available: 512 << 20}, Wanted: 3 << 30, Freed: 17,
	})
	want := "Insufficient free disk space on the node's image filesystem (95% of 10.0 GiB used). " +
		"Failed to free sufficient space by deleting unused images (freed 17 bytes). " +
		"Investigate disk usage, as it could be used by active images, logs, volumes, or other data."
	if got != want {
		t.Errorf("got %s", got)
	}
}

// Of the images that a Job or a CronJob names, those stay that will still be used.
func TestWantedImages(t *testing.T) {
	s, err := store.Open(filepath.Join(t.TempDir(), "jobd.db"), store.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	of := func(image string) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Image: image + "-init:1"}},
			Containers:     []corev1.Container{{Image: image + ":1"}},
			Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{
				Image: &corev1.ImageVolumeSource{Reference: image + "-volume:1"},
			}}},
		}}
	}
	named := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID(name)}
	}
	put := func(resource string, obj objects.Object) {
		t.Helper()
		value, err := scheme.Encode(obj)
		if err == nil {
			err = s.Update(t.Context(), func(tx *store.Tx) error {
				tx.Put(store.Object{Key: objects.Key(resource, obj), UID: string(obj.GetUID()), Value: value})
				return nil
			})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	put(objects.Jobs, &batchv1.Job{ObjectMeta: named("waits"), Spec: batchv1.JobSpec{Suspend: ptr.To(true), Template: of("waits")}})
	for _, end := range []batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed} {
		name := strings.ToLower(string(end))
		put(objects.Jobs, &batchv1.Job{
			ObjectMeta: named(name), Spec: batchv1.JobSpec{Template: of(name)},
			Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: end, Status: corev1.ConditionTrue}}},
		})
	}
	put(objects.CronJobs, &batchv1.CronJob{
		ObjectMeta: named("nightly"),
		Spec:       batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: of("nightly")}}},
	})
	for name, phase := range map[string]corev1.PodPhase{"pending": corev1.PodPending, "runs": corev1.PodRunning, "over": corev1.PodSucceeded} {
		put(objects.Pods, &corev1.Pod{ObjectMeta: named(name), Spec: of(name).Spec, Status: corev1.PodStatus{Phase: phase}})
	}
	wanted, err := NewImageCollector(ImageCollectorOptions{Store: s}).wanted(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, name := range []string{"nightly", "pending", "runs", "waits"} {
		for _, part := range []string{"", "-init", "-volume"} {
			want = append(want, "docker.io/library/"+name+part+":1")
		}
	}
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(wanted)); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
