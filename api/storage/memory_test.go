package storage

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// What is done with a large object counts as much memory as it takes; after that, what the answer has.
func TestLargeObjectsCountWhileSomethingIsDoneWithThem(t *testing.T) {
	s := pods(t)
	const large = 1 << 20
	for _, name := range []string{"large", "small"} {
		p := pod(name, nil)
		p.Annotations = map[string]string{"a": strings.Repeat("x", map[string]int{"large": large, "small": lightObject / 2}[name])}
		if err := s.Create(t.Context(), podKey(name), p, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	get := func(ctx context.Context, key string) error {
		return s.Get(ctx, key, storage.GetOptions{}, &corev1.Pod{})
	}
	update := func(during func()) func(ctx context.Context, key string) error {
		return func(ctx context.Context, key string) error {
			return s.GuaranteedUpdate(ctx, key, &corev1.Pod{}, false, nil, storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
				obj.(*corev1.Pod).Labels = map[string]string{"a": "b"}
				during()
				return obj, nil
			}), nil)
		}
	}
	moved := false
	moves := func() {
		if moved {
			return
		}
		moved = true
		if err := update(func() {})(t.Context(), podKey("large")); err != nil {
			t.Error(err)
		}
	}
	remove := func(ctx context.Context, key string) error {
		refuse := func(context.Context, runtime.Object) error { return storage.ErrResourceVersionSetOnCreate }
		if err := s.Delete(ctx, key, &corev1.Pod{}, nil, refuse, nil, storage.DeleteOptions{}); err != storage.ErrResourceVersionSetOnCreate {
			return err
		}
		return nil
	}
	none := func(ctx context.Context) context.Context { return ctx }
	for _, c := range []struct {
		name, pod  string
		with       func(context.Context) context.Context
		do         func(ctx context.Context, key string) error
		peak, left int // in objects
	}{
		{"a read", "large", none, get, 1, 1},
		{"one by one", "large", Passing, get, 1, 0},
		{"what an update only tries, which has just begun", "large", Updating, get, updateFactor, updateFactor},
		{"a read for YAML", "large", Whole, get, 1 + wholeFactor, 1 + wholeFactor},
		{"an update whose answer is YAML", "large", Whole, update(func() {}), updateFactor + wholeFactor, 1 + wholeFactor},
		{"an update", "large", none, update(func() {}), updateFactor, 1},
		{"an update, again after another one", "large", none, update(moves), updateFactor, 1},
		{"a deletion", "large", none, remove, deleteFactor, 1},
		{"deletions one by one", "large", Passing, remove, deleteFactor, 0},
		{"of something small", "small", none, update(func() {}), 0, 0},
		{"of nothing", "none", Updating, func(ctx context.Context, key string) error {
			return s.Get(ctx, key, storage.GetOptions{IgnoreNotFound: true}, &corev1.Pod{})
		}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var held countedMemory
			var work Work
			ended := false
			work.After(func() { ended = true })
			ctx := c.with(WithWork(WithMemory(t.Context(), &held), &work))
			if err := c.do(ctx, podKey(c.pod)); err != nil {
				t.Fatal(err)
			}
			for _, n := range [][2]int{{held.peak, c.peak}, {held.bytes, c.left}} {
				if got, want := n[0], n[1]*large; got < want || got > want*11/10 {
					t.Errorf("%+v, want %d and in the end %d of %d bytes", held, c.peak, c.left, large)
				}
			}
			if work.Answered(); !ended {
				t.Error("something still goes on")
			}
			if c.peak == 0 {
				return
			}
			held = countedMemory{}
			if err := c.do(ctx, podKey(c.pod)); err == nil || held.peak > 0 {
				t.Errorf("after the answer: %v, %+v", err, held)
			}
			full := countedMemory{most: 1}
			if err := c.do(c.with(WithMemory(t.Context(), &full)), podKey(c.pod)); !apierrors.IsTooManyRequests(err) {
				t.Errorf("without memory: %v", err)
			}
		})
	}
}
