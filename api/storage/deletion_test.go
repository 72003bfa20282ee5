package storage

import (
	"math"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func TestMarkDeleted(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	after := func(seconds int) time.Time { return now.Add(time.Duration(seconds) * time.Second) }
	deleted := func(at time.Time, grace int64) metav1.ObjectMeta {
		return metav1.ObjectMeta{Generation: 2, DeletionTimestamp: ptr.To(metav1.NewTime(at)), DeletionGracePeriodSeconds: &grace}
	}
	for name, c := range map[string]struct {
		before     metav1.ObjectMeta
		grace      int64
		at         time.Time
		wantGrace  int64
		generation int64
		changed    bool
	}{
		"the first time, the generation grows":              {metav1.ObjectMeta{Generation: 1}, 30, after(30), 30, 2, true},
		"an object without generation gets none":            {metav1.ObjectMeta{}, 0, now, 0, 0, true},
		"a negative grace is one second":                    {metav1.ObjectMeta{Generation: 1}, -5, after(1), 1, 2, true},
		"the same grace again changes nothing":              {deleted(after(20), 30), 30, after(20), 30, 2, false},
		"a longer grace changes nothing":                    {deleted(after(20), 30), 60, after(20), 30, 2, false},
		"a shorter grace counts from when it was asked for": {deleted(after(20), 30), 15, after(5), 15, 2, true},
		"a grace that is over already is due now":           {deleted(after(20), 30), 5, now, 1, 2, true},
		"no grace ends it at once":                          {deleted(after(20), 30), 0, now, 0, 2, true},
		"a grace of ages does not end it at once": {
			metav1.ObjectMeta{Generation: 1}, math.MaxInt64, now.Add(math.MaxInt64).Truncate(time.Second), math.MaxInt64, 2, true,
		},
		"what has no grace left stays so": {deleted(after(-5), 0), 0, after(-5), 0, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := c.before
			changed := MarkDeleted(&o, now, c.grace)
			if changed != c.changed || !o.DeletionTimestamp.Time.Equal(c.at) || *o.DeletionGracePeriodSeconds != c.wantGrace || o.Generation != c.generation {
				t.Errorf("changed %v, deletion %v, grace %d, generation %d", changed, o.DeletionTimestamp, *o.DeletionGracePeriodSeconds, o.Generation)
			}
		})
	}
}

func TestRemovable(t *testing.T) {
	now := metav1.Now()
	for name, c := range map[string]struct {
		object metav1.ObjectMeta
		want   bool
	}{
		"not deleted":         {metav1.ObjectMeta{}, false},
		"deleted":             {metav1.ObjectMeta{DeletionTimestamp: &now}, true},
		"deleted, no grace":   {metav1.ObjectMeta{DeletionTimestamp: &now, DeletionGracePeriodSeconds: ptr.To[int64](0)}, true},
		"grace left":          {metav1.ObjectMeta{DeletionTimestamp: &now, DeletionGracePeriodSeconds: ptr.To[int64](1)}, false},
		"held by a finalizer": {metav1.ObjectMeta{DeletionTimestamp: &now, Finalizers: []string{"x"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Removable(&c.object); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestPropagation(t *testing.T) {
	for _, policy := range []metav1.DeletionPropagation{
		metav1.DeletePropagationOrphan, metav1.DeletePropagationForeground, metav1.DeletePropagationBackground,
	} {
		t.Run(string(policy), func(t *testing.T) {
			for _, before := range [][]string{nil, {"mine"}, {"mine", "orphan"}, {"foregroundDeletion", "mine"}} {
				o := &metav1.ObjectMeta{Finalizers: before}
				SetPropagation(o, policy)
				if got := Propagation(o); got != policy {
					t.Errorf("after %v: %v", before, got)
				}
				if SetPropagation(o, policy) {
					t.Errorf("after %v: the second time changed something", before)
				}
				if len(before) > 0 && !DropFinalizer(o, "mine") {
					t.Errorf("after %v: somebody's finalizer is gone", before)
				}
			}
		})
	}
}

func TestDropFinalizer(t *testing.T) {
	finalizers := []string{"a", "b"}
	o := &metav1.ObjectMeta{Finalizers: finalizers}
	if !DropFinalizer(o, "a") || DropFinalizer(o, "a") || !DropFinalizer(o, "b") || o.Finalizers != nil {
		t.Errorf("left %v", o.Finalizers)
	}
	if finalizers[0] != "a" || finalizers[1] != "b" {
		t.Errorf("the slice that the object shared was changed: %v", finalizers)
	}
}

func TestOwners(t *testing.T) {
	o := &metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{
		{UID: types.UID("job"), BlockOwnerDeletion: ptr.To(true)}, {UID: types.UID("other")},
	}}
	for _, c := range []struct {
		owner, namespace, of string
		want                 bool
	}{
		{"job", "", "", true}, {"job", "a", "a", true}, {"job", "", "a", true}, // one in no namespace
		{"job", "a", "b", false}, {"job", "a", "", false}, {"other", "a", "a", false}, {"nobody", "a", "a", false},
	} {
		o.Namespace = c.of
		if BlocksOwner(o, &metav1.ObjectMeta{UID: types.UID(c.owner), Namespace: c.namespace}) != c.want {
			t.Errorf("%+v", c)
		}
	}
	if !DropOwner(o, "job") || DropOwner(o, "job") || !DropOwner(o, "other") || o.OwnerReferences != nil {
		t.Errorf("left %v", o.OwnerReferences)
	}
}
