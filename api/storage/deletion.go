package storage

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/podspec"
)

// MarkDeleted starts the deletion of obj, or hastens one that has started: it sets the deletionTimestamp to the end of
// the grace period, and increments the generation, once, since the desired state of the object has changed. A deletion
// cannot be put off: a longer grace period than the current one changes nothing. It reports whether obj was changed.
//
// graceSeconds is 0 for objects that need no grace period; a negative one counts as 1, as the API has it.
func MarkDeleted(obj metav1.Object, now time.Time, graceSeconds int64) bool {
	if graceSeconds < 0 {
		graceSeconds = 1
	}
	if began := obj.GetDeletionTimestamp(); began != nil {
		return hasten(obj, began.Time, now, graceSeconds)
	}
	if g := obj.GetGeneration(); g > 0 {
		obj.SetGeneration(g + 1)
	}
	setDeletion(obj, now.Add(podspec.Seconds(graceSeconds)), graceSeconds)
	return true
}

// hasten shortens the grace of a deletion. Counted from when it was asked for, it may be over already: then the
// deletion is due now, but stays graceful unless none was asked for, so that whoever ends the object still does it.
func hasten(obj metav1.Object, deletion, now time.Time, graceSeconds int64) bool {
	var before int64
	if p := obj.GetDeletionGracePeriodSeconds(); p != nil {
		before = *p
	}
	if graceSeconds >= before {
		return false
	}
	asked := deletion.Add(-podspec.Seconds(before))
	deletion = asked.Add(podspec.Seconds(graceSeconds))
	if deletion.Before(now) {
		deletion = now
		graceSeconds = min(graceSeconds, 1)
	}
	setDeletion(obj, deletion, graceSeconds)
	return true
}

func setDeletion(obj metav1.Object, at time.Time, graceSeconds int64) {
	// The API has whole seconds.
	timestamp := metav1.NewTime(at.Truncate(time.Second))
	obj.SetDeletionTimestamp(&timestamp)
	obj.SetDeletionGracePeriodSeconds(&graceSeconds)
}

// Removable reports whether obj can leave the store: it is being deleted, nothing has a finalizer on it, and it has no
// grace left. Grace does not run out by itself: whoever ends the object (for a pod, what runs its containers) sets it
// to 0 when that is done, by MarkDeleted.
func Removable(obj metav1.Object) bool {
	grace := obj.GetDeletionGracePeriodSeconds()
	return obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 && (grace == nil || *grace == 0)
}

// SetPropagation sets obj's finalizers to what happens to its dependents when it is deleted: Orphan and Foreground are
// a finalizer each, Background is none. It reports whether obj was changed.
func SetPropagation(obj metav1.Object, policy metav1.DeletionPropagation) bool {
	finalizers := slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool {
		return f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
	})
	switch policy {
	case metav1.DeletePropagationOrphan:
		finalizers = append(finalizers, metav1.FinalizerOrphanDependents)
	case metav1.DeletePropagationForeground:
		finalizers = append(finalizers, metav1.FinalizerDeleteDependents)
	}
	if slices.Equal(finalizers, obj.GetFinalizers()) {
		return false
	}
	obj.SetFinalizers(finalizers)
	return true
}

// Propagation returns what happens to the dependents of an object that is being deleted, according to its finalizers.
func Propagation(obj metav1.Object) metav1.DeletionPropagation {
	for _, f := range obj.GetFinalizers() {
		switch f {
		case metav1.FinalizerOrphanDependents:
			return metav1.DeletePropagationOrphan
		case metav1.FinalizerDeleteDependents:
			return metav1.DeletePropagationForeground
		}
	}
	return metav1.DeletePropagationBackground
}

// DropFinalizer removes a finalizer from obj and reports whether it was there.
func DropFinalizer(obj metav1.Object, finalizer string) bool {
	before := obj.GetFinalizers()
	i := slices.Index(before, finalizer)
	if i < 0 {
		return false
	}
	rest := slices.Delete(slices.Clone(before), i, i+1)
	if len(rest) == 0 {
		rest = nil
	}
	obj.SetFinalizers(rest)
	return true
}

// DropOwner removes the reference to an owner from obj, which makes it an orphan, and reports whether the reference was
// there.
func DropOwner(obj metav1.Object, uid string) bool {
	before := obj.GetOwnerReferences()
	rest := slices.DeleteFunc(slices.Clone(before), func(r metav1.OwnerReference) bool { return string(r.UID) == uid })
	if len(rest) == len(before) {
		return false
	}
	if len(rest) == 0 {
		rest = nil
	}
	obj.SetOwnerReferences(rest)
	return true
}

// BlocksOwner reports whether the deletion of an owner in the foreground waits for obj. It waits for nothing in another namespace,
// where others could keep it for ever: a reference there is to an object of that namespace, which does not exist.
func BlocksOwner(obj, owner metav1.Object) bool {
	if owner.GetNamespace() != "" && obj.GetNamespace() != owner.GetNamespace() || obj.GetUID() == owner.GetUID() {
		return false
	}
	return slices.ContainsFunc(obj.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
		return r.UID == owner.GetUID() && r.BlockOwnerDeletion != nil && *r.BlockOwnerDeletion
	})
}
