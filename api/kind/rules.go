package kind

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Rules is a Strategy made of typed functions. A nil function means that there is no such rule.
type Rules[T runtime.Object] struct {
	// Create and Update bring an object into the form that is stored, before it is validated: they drop what
	// a client may not set here and set what it may not choose.
	Create func(obj T)
	Update func(obj, old T)

	// Check and CheckUpdate validate. CheckUpdate is complete in itself: Check does not run before it.
	Check       func(obj T) field.ErrorList
	CheckUpdate func(obj, old T) field.ErrorList

	// Warn and WarnUpdate return the warnings sent along with an accepted write.
	Warn       func(obj T) []string
	WarnUpdate func(obj, old T) []string

	// Grace sets options.GracePeriodSeconds and reports whether deletion has to wait for it. Nil: at once.
	Grace func(obj T, options *metav1.DeleteOptions) bool

	// Dependents is what happens to owned objects when the deletion does not say. Empty: they are deleted.
	Dependents rest.GarbageCollectionPolicy

	// CreateOnPut lets PUT create an object that is not there.
	CreateOnPut bool

	// Reset holds the fields that a write here never sets, such as the status in a write of the object: they are left
	// out of field ownership.
	Reset *fieldpath.Set
}

// Path returns the set of one field for Rules.Reset: Path("status"), Path("metadata", "deletionTimestamp").
func Path(parts ...any) *fieldpath.Set {
	return fieldpath.NewSet(fieldpath.MakePathOrDie(parts...))
}

var _ Strategy = Rules[runtime.Object]{}

func (r Rules[T]) PrepareForCreate(_ context.Context, obj runtime.Object) {
	if r.Create != nil {
		r.Create(obj.(T))
	}
}

func (r Rules[T]) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	if r.Update != nil {
		r.Update(obj.(T), old.(T))
	}
}

func (r Rules[T]) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	if r.Check == nil {
		return nil
	}
	return r.Check(obj.(T))
}

func (r Rules[T]) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	if r.CheckUpdate == nil {
		return nil
	}
	return r.CheckUpdate(obj.(T), old.(T))
}

func (r Rules[T]) WarningsOnCreate(_ context.Context, obj runtime.Object) []string {
	if r.Warn == nil {
		return nil
	}
	return r.Warn(obj.(T))
}

func (r Rules[T]) WarningsOnUpdate(_ context.Context, obj, old runtime.Object) []string {
	if r.WarnUpdate == nil {
		return nil
	}
	return r.WarnUpdate(obj.(T), old.(T))
}

func (r Rules[T]) CheckGracefulDelete(_ context.Context, obj runtime.Object, options *metav1.DeleteOptions) bool {
	return r.Grace != nil && r.Grace(obj.(T), options)
}

func (r Rules[T]) DefaultGarbageCollectionPolicy(context.Context) rest.GarbageCollectionPolicy {
	if r.Dependents == "" {
		return rest.DeleteDependents
	}
	return r.Dependents
}

// AllowUnconditionalUpdate is true: a PUT without a resourceVersion replaces whatever is there, for every kind.
func (r Rules[T]) AllowUnconditionalUpdate(context.Context) bool { return true }

func (r Rules[T]) AllowCreateOnUpdate(context.Context) bool { return r.CreateOnPut }

func (r Rules[T]) ResetFields() *fieldpath.Set { return r.Reset }
