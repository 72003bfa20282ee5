package server

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
)

// jobs is the endpoint of Jobs. Deleting one keeps its pods unless the request says otherwise, which hardly anybody
// expects.
type jobs struct{ *resource }

func (j *jobs) Delete(
	ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions,
) (runtime.Object, bool, error) {
	warnOfKeptPods(ctx, options)
	return j.resource.Delete(ctx, name, validate, options)
}

func (j *jobs) DeleteCollection(
	ctx context.Context, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions, list *internalversion.ListOptions,
) (runtime.Object, error) {
	warnOfKeptPods(ctx, options)
	return j.resource.DeleteCollection(ctx, validate, options, list)
}

// warnOfKeptPods warns whoever has not said what is to become of the pods, in the words of a cluster.
func warnOfKeptPods(ctx context.Context, options *metav1.DeleteOptions) {
	//lint:ignore SA1019 clients still send the older field
	if options != nil && (options.PropagationPolicy != nil || options.OrphanDependents != nil) {
		return
	}
	warning.AddWarning(ctx, "", "child pods are preserved by default when jobs are deleted; "+
		"set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning")
}
