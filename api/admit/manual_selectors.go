package admit

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

// MaxManualSelectors is how many Jobs of a namespace that have not finished may choose their pods by selectors of their own
// (JobSpec.ManualSelector). Each change of a pod that nobody controls is compared with all of those.
const MaxManualSelectors = 100

// ManualSelectors refuses Jobs that are more. Those that are created at the same moment may be a few more.
type ManualSelectors struct{ Store *store.Store }

var _ admission.ValidationInterface = ManualSelectors{}

func (ManualSelectors) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

func (m ManualSelectors) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	job, ok := a.GetObject().(*batchv1.Job)
	if !ok || a.GetSubresource() != "" || !ptr.Deref(job.Spec.ManualSelector, false) {
		return nil
	}
	if old, ok := a.GetOldObject().(*batchv1.Job); ok && ptr.Deref(old.Spec.ManualSelector, false) {
		return nil
	}
	others := 0
	err := m.Store.View(func(s *store.Snapshot) (err error) {
		s.Range(store.Key(batchJobs, a.GetNamespace(), ""), "", func(o store.Object) bool {
			if err = ctx.Err(); err != nil || !manualSelector(o.Value) {
				return err == nil
			}
			other := &batchv1.Job{}
			if err = scheme.Decode(o.Value, other); err != nil {
				return false
			}
			if batch.End(&other.Status) == nil {
				others++
			}
			return others < MaxManualSelectors
		})
		return err
	})
	if err != nil || others < MaxManualSelectors {
		return err
	}
	return apierrors.NewForbidden(a.GetResource().GroupResource(), job.Name, fmt.Errorf(
		"the namespace has %d Jobs with spec.manualSelector that have not finished, and may have no more: leave spec.selector to "+
			"the server", others))
}

// batchJobs and jobSets are the resources of Jobs and JobSets, as keys begin with them.
const (
	batchJobs = "jobs." + batchv1.GroupName
	jobSets   = "jobsets.jobset.x-k8s.io"
)

// manualSelector reads from a stored Job whether it chooses its pods by a selector of its own, without decoding the rest:
// there may be very many others.
func manualSelector(value []byte) bool {
	const spec, manual = 2, 5 // fields of Job and JobSpec
	for at := range fields(value, spec) {
		inside, n := protowire.ConsumeBytes(at)
		if n < 0 {
			return false
		}
		for at := range fields(inside, manual) {
			is, _ := protowire.ConsumeVarint(at)
			return is != 0
		}
	}
	return false
}

// fields calls yield with what begins at each field of that number.
func fields(message []byte, number protowire.Number) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(message) > 0 {
			is, kind, n := protowire.ConsumeTag(message)
			if n < 0 {
				return
			}
			message = message[n:]
			if n = protowire.ConsumeFieldValue(is, kind, message); n < 0 || is == number && !yield(message) {
				return
			}
			message = message[n:]
		}
	}
}
