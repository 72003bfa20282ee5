package forward

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/clusters"
)

// sent are the fields of a Job that may change, as they were passed on last. What is passed on is what was changed here since, and nothing
// else: the cluster may have changed them too, as Kueue does with suspend.
type sent struct {
	Suspend               bool   `json:"suspend"`
	Parallelism           *int32 `json:"parallelism,omitempty"`
	Completions           *int32 `json:"completions,omitempty"`
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`
	BackoffLimit          *int32 `json:"backoffLimit,omitempty"`
	MaxFailedIndexes      *int32 `json:"maxFailedIndexes,omitempty"`
	// Template is a hash of the template, whose changes are not passed on, which is then said once.
	Template string `json:"template"`
}

func sentOf(l *batchv1.Job) sent {
	sum := sha256.Sum256([]byte(text(l.Spec.Template)))
	return sent{
		Suspend: ptr.Deref(l.Spec.Suspend, false), Parallelism: l.Spec.Parallelism, Completions: l.Spec.Completions,
		ActiveDeadlineSeconds: l.Spec.ActiveDeadlineSeconds, BackoffLimit: l.Spec.BackoffLimit, MaxFailedIndexes: l.Spec.MaxFailedIndexes,
		Template: hex.EncodeToString(sum[:8]),
	}
}

func (s sent) annotation() string { return text(s) }

// lastSent returns what was passed on to the Job there.
func lastSent(r *batchv1.Job) (s sent, ok bool) {
	err := json.Unmarshal([]byte(r.Annotations[clusters.SentAnnotation]), &s)
	return s, err == nil
}

// passes reports whether something was changed here that the Job there was not told of.
func (s Seen) passes() bool {
	r := s.Remote
	if r.DeletionTimestamp != nil || batch.End(&r.Status) != nil {
		return false
	}
	last, ok := lastSent(r)
	return !ok || text(last) != sentOf(s.Local).annotation()
}

// Changes returns the fields of the spec that are set there because they were changed here since they were passed on, and which changes
// have no effect there. A Job that is in a queue of Kueue is resumed by Kueue alone.
func Changes(l, r *batchv1.Job) (spec map[string]any, ignored []string) {
	now := sentOf(l)
	last, ok := lastSent(r)
	if !ok { // somebody has removed the annotation
		last = now
	}
	spec = map[string]any{}
	set := func(name string, changed bool, value any) {
		if changed {
			spec[name] = value
		}
	}
	set("parallelism", !ptr.Equal(last.Parallelism, now.Parallelism), now.Parallelism)
	set("completions", !ptr.Equal(last.Completions, now.Completions), now.Completions)
	set("activeDeadlineSeconds", !ptr.Equal(last.ActiveDeadlineSeconds, now.ActiveDeadlineSeconds), now.ActiveDeadlineSeconds)
	set("backoffLimit", !ptr.Equal(last.BackoffLimit, now.BackoffLimit), now.BackoffLimit)
	set("maxFailedIndexes", !ptr.Equal(last.MaxFailedIndexes, now.MaxFailedIndexes), now.MaxFailedIndexes)
	_, queued := r.Labels[batch.KueueLabel]
	switch {
	case last.Suspend == now.Suspend:
	case !now.Suspend && queued:
		ignored = append(ignored, "spec.suspend: Kueue decides there when it goes on")
	default:
		spec["suspend"] = now.Suspend
	}
	if last.Template != now.Template {
		ignored = append(ignored, "spec.template: it was made there as it was before")
	}
	return spec, ignored
}
