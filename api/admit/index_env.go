package admit

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

// IndexEnv warns clients that create a Job whose indexes have values (batch.IndexEnvAnnotation): of values that are missing,
// and of a ConfigMap that can change, since an index could then be shown with other values than it ran with. The ConfigMap of a
// suspended Job may come later, as with jobctl submit, where the Job owns it.
type IndexEnv struct{ Store *store.Store }

var _ admission.ValidationInterface = IndexEnv{}

func (IndexEnv) Handles(op admission.Operation) bool { return op == admission.Create }

// valueFields are what is read of the ConfigMap.
var valueFields = scheme.FieldsOf[corev1.ConfigMap]("data", "immutable")

func (r IndexEnv) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	job, ok := a.GetObject().(*batchv1.Job)
	if !ok || a.GetSubresource() != "" {
		return nil
	}
	env, ok := batch.IndexEnvOf(job)
	if !ok {
		return nil
	}
	warn := func(format string, args ...any) {
		path := field.NewPath("metadata", "annotations").Key(batch.IndexEnvAnnotation)
		warning.AddWarning(ctx, "", fmt.Sprintf("%s: ", path)+fmt.Sprintf(format, args...))
	}
	return r.Store.View(func(s *store.Snapshot) error {
		o, ok := s.Get(store.Key("configmaps", a.GetNamespace(), env.ConfigMap))
		if !ok {
			if !ptr.Deref(job.Spec.Suspend, false) {
				warn("there is no ConfigMap %q yet: no container starts until there is", env.ConfigMap)
			}
			return nil
		}
		cm := &corev1.ConfigMap{}
		if err := scheme.DecodePart(o.Value, valueFields, cm); err != nil {
			return fmt.Errorf("%s: %w", o.Key, err)
		}
		values := batch.IndexValues{IndexEnv: env, Data: cm.Data}
		if key := values.Missing(int(ptr.Deref(job.Spec.Completions, 0))); key != "" {
			warn("ConfigMap %q has no key %q: the pod of that index cannot start", env.ConfigMap, key)
		}
		if !ptr.Deref(cm.Immutable, false) {
			warn("ConfigMap %q is not immutable: if it changes, pods that start later have other values, and what is shown of those before is wrong",
				env.ConfigMap)
		}
		return nil
	})
}
