package history

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// bound is what tells of a pod whether it was bound. No more is decoded: a Job may have thousands of pods of a megabyte, and nobody else
// writes meanwhile.
var bound = scheme.FieldsOf[corev1.Pod]("metadata.ownerReferences", "spec.nodeName", "status.conditions")

// Begun reports whether a pod of a Job that has not ended was ever bound. Of those that are gone the account of the Job tells.
func Begun(s *store.Snapshot, j *batchv1.Job) (begun bool, err error) {
	if _, begun = s.Get(accountKey(j.UID)); begun {
		return true, nil
	}
	s.Owned(string(j.UID), store.Key(objects.Pods, j.Namespace, ""), "", func(key string) bool {
		o, ok := s.Get(key)
		if !ok {
			return true
		}
		p := &corev1.Pod{}
		if err = scheme.DecodePart(o.Value, bound, p); err == nil {
			begun = podspec.Bound(p) && objects.ControllingJob(p) == j.UID
		}
		return err == nil && !begun
	})
	return begun, err
}
