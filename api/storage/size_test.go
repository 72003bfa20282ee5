package storage

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"github.com/jobd/jobd/api/scheme"
)

// tight is a pod that takes much more memory than as it is stored: each of its volumes has a pointer for each kind of volume.
func tight(name string, volumes int) *corev1.Pod {
	p := pod(name, nil)
	for i := range volumes {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{
			Name: fmt.Sprint("v", i), VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		})
	}
	return p
}

func TestSizeOf(t *testing.T) {
	const n = 1000
	volume := int(unsafe.Sizeof(corev1.Volume{}) + unsafe.Sizeof(corev1.EmptyDirVolumeSource{}))
	plain := pod("p", nil)
	plain.CreationTimestamp = metav1.Now() // whose time zone belongs to all
	mapped := pod("p", nil)
	mapped.Labels = map[string]string{}
	for i := range n {
		mapped.Labels[fmt.Sprint(i)] = ""
	}
	for _, c := range []struct {
		name        string
		obj         runtime.Object
		least, most int
	}{
		{"texts alone", plain, 0, 0},
		{"volumes", tight("p", n), n * volume, 2 * n * volume},
		{"a map", mapped, n * 2 * int(unsafe.Sizeof("")), 4 * n * int(unsafe.Sizeof(""))},
		{"an object of an object", &corev1.PodList{Items: []corev1.Pod{*tight("p", n)}}, n * volume, 2 * n * volume},
	} {
		if got := sizeOf(c.obj, 7) - 7; got < c.least || got > c.most {
			t.Errorf("%s: %d, want %d to %d", c.name, got, c.least, c.most)
		}
	}
}

// What is counted is what objects take in memory, not as they are stored, and a list does not take more than there may be.
func TestListsAreBounded(t *testing.T) {
	s := pods(t)
	const many, volumes = 40, 5000
	for i := range many {
		if err := s.Create(t.Context(), podKey(fmt.Sprintf("p%02d", i)), tight("p", volumes), nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := runtime.Encode(scheme.StorageCodec, tight("p", volumes))
	if err != nil {
		t.Fatal(err)
	}
	size := sizeOf(tight("p", volumes), 0)
	if size < 10*len(stored) {
		t.Fatalf("%d bytes are %d in memory: that is no test", len(stored), size)
	}
	list := func(ctx context.Context, limit int64) (l corev1.PodList, held countedMemory, err error) {
		predicate := storage.Everything
		predicate.Limit = limit
		err = s.GetList(WithMemory(ctx, &held), "/pods/", storage.ListOptions{Recursive: true, Predicate: predicate}, &l)
		return l, held, err
	}
	all, held, err := list(t.Context(), 0)
	if err != nil || len(all.Items) != many || held.bytes < many*size {
		t.Errorf("all of them: %d, %d bytes are held, %v", len(all.Items), held.bytes, err)
	}
	_, held, err = list(Whole(t.Context()), 0)
	if !apierrors.IsRequestEntityTooLargeError(err) || !strings.Contains(err.Error(), "in pages (limit), or for compact JSON") || held.bytes > maxListBytes {
		t.Errorf("all of them as a table: %d bytes are held, %v", held.bytes, err)
	}
	for name, ctx := range map[string]context.Context{"a page": t.Context(), "a page of a table": Whole(t.Context())} {
		page, held, err := list(ctx, 500)
		if most := (maxPageBytes + 2*size) * (1 + wholeFactorOf(ctx)); err != nil || len(page.Items) == 0 || page.Continue == "" || held.bytes > most {
			t.Errorf("%s: %d pods, %d bytes are held, %v", name, len(page.Items), held.bytes, err)
		}
	}
	one := countedMemory{}
	if err := s.Get(WithMemory(t.Context(), &one), podKey("p00"), storage.GetOptions{}, &corev1.Pod{}); err != nil || one.bytes < size {
		t.Errorf("one of them: %d bytes are held, %v", one.bytes, err)
	}
}
