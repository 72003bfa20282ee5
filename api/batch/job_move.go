package batch

import (
	"encoding/json"
	"errors"
	"strings"
	"unicode"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

const (
	// MovingAnnotation says that a Job is being moved to another server: a Moving as JSON. As long as it is there the Job is suspended.
	// Only MoveJob writes it: what clients send is ignored, as for the status.
	MovingAnnotation = "jobd.dev/moving"
	// MovedFromAnnotation is the UID that a Job had where it was before it was moved.
	MovedFromAnnotation = "jobd.dev/moved-from"
	// MoveFinalizer keeps the Job that was made elsewhere until the one here is gone: whatever becomes of it there meanwhile, it is known
	// that it was made.
	MoveFinalizer = "jobd.dev/moving"

	// maxMoveName is how long the name of the place may be that a Job is moved to.
	maxMoveName = 253
)

// Moving is where a Job is being moved to.
type Moving struct {
	To string `json:"to"`
	// Suspended: it was so before, and will be there.
	Suspended bool `json:"suspended,omitempty"`
}

// MovingOf returns where a Job is being moved to; nil for all others.
func MovingOf(annotations map[string]string) *Moving {
	m := &Moving{}
	if text := annotations[MovingAnnotation]; text == "" || json.Unmarshal([]byte(text), m) != nil {
		return nil
	}
	return m
}

// Move is the body of a POST to jobs/NAME/move: one of both.
type Move struct {
	// To names the place to which the Job is to be moved: it is held until it is deleted, or the move is cancelled.
	To string `json:"to,omitempty"`
	// Cancel ends a move of which nothing was made elsewhere: the Job goes on here.
	Cancel bool `json:"cancel,omitempty"`
}

// MoveJob begins to move a Job, or ends that. It may be asked for again. Whether something of the Job has started is not looked at but in
// its status: whoever calls this has to know of its pods.
func MoveJob(j *batchv1.Job, ask Move) error {
	refuse := func(why string) error {
		return apierrors.NewConflict(batchv1.Resource("jobs"), j.Name, errors.New(why))
	}
	bad := func(child, value, why string) error {
		errs := field.ErrorList{field.Invalid(field.NewPath(child), value, why)}
		return apierrors.NewInvalid(batchv1.SchemeGroupVersion.WithKind("Job").GroupKind(), j.Name, errs)
	}
	is := MovingOf(j.Annotations)
	switch {
	case ask.Cancel == (ask.To != ""):
		return bad("to", ask.To, "must name where the Job is moved to, unless cancel is true")
	case len(ask.To) > maxMoveName:
		return bad("to", strings.ToValidUTF8(ask.To[:maxMoveName], "")+"...", "must have at most 253 bytes")
	case strings.ContainsFunc(ask.To, func(r rune) bool { return !unicode.IsPrint(r) }):
		return bad("to", ask.To, "must consist of printable characters") // it is shown to others
	case ask.Cancel && is == nil:
		return nil
	case ask.Cancel:
		EndMove(j)
		return nil
	case is != nil && is.To != ask.To:
		return refuse("the Job is being moved to " + is.To + ": finish that, or cancel it")
	case is != nil:
		return nil
	}
	if why := unmovable(j); why != "" {
		return refuse(why)
	}
	return BeginMove(j, ask.To)
}

// BeginMove holds a Job that is to be moved to a place.
func BeginMove(j *batchv1.Job, to string) error {
	text, err := json.Marshal(Moving{To: to, Suspended: ptr.Deref(j.Spec.Suspend, false)})
	if err != nil {
		return err
	}
	metav1.SetMetaDataAnnotation(&j.ObjectMeta, MovingAnnotation, string(text))
	setSuspend(j, true)
	return nil
}

// EndMove lets a Job that is held for a move be as it was before.
func EndMove(j *batchv1.Job) {
	if m := MovingOf(j.Annotations); m != nil {
		delete(j.Annotations, MovingAnnotation)
		setSuspend(j, m.Suspended)
	}
}

func setSuspend(j *batchv1.Job, suspend bool) {
	if ptr.Deref(j.Spec.Suspend, false) != suspend {
		j.Spec.Suspend = &suspend
		j.Generation++
	}
}

// HasBegun is why a Job cannot be moved of which a pod was bound.
const HasBegun = "a pod of the Job was started here, so it stays: what runs twice may do harm"

// unmovable says why a Job cannot be moved, as far as it tells that itself; empty if it can.
func unmovable(j *batchv1.Job) string {
	s := &j.Status
	owner := metav1.GetControllerOfNoCopy(j)
	switch {
	case j.DeletionTimestamp != nil:
		return "the Job is being deleted"
	case End(s) != nil || Ending(s) != nil:
		return "the Job has ended, or is about to"
	case owner != nil:
		return "the Job belongs to the " + owner.Kind + " " + owner.Name + ", which decides about it: move what makes such Jobs"
	case !managedHere(j):
		return "another controller manages the Job (spec.managedBy): " + *j.Spec.ManagedBy
	case HandedOut(&j.ObjectMeta) != "":
		return "a manager of MultiKueue has handed out the Job, and decides where it runs"
	case ShowsBegun(j):
		return HasBegun
	}
	return ""
}

// ShowsBegun reports whether a Job itself shows that a pod of it has started. One that does not may have started pods all the same.
func ShowsBegun(j *batchv1.Job) bool {
	s := &j.Status
	if u := s.UncountedTerminatedPods; u != nil && len(u.Succeeded)+len(u.Failed) > 0 {
		return true
	}
	return s.Succeeded+s.Failed+ptr.Deref(s.Ready, 0) > 0 || len(Attempts(j.Annotations)) > 0
}

// validateMoving refuses to resume a Job that is being moved: it could run in both places.
func validateMoving(job *batchv1.Job) field.ErrorList {
	m := MovingOf(job.Annotations)
	if m == nil || ptr.Deref(job.Spec.Suspend, false) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec", "suspend"), "the Job is being moved to "+m.To+
		", and may run there already: finish that (jobctl move jobs/"+job.Name+" --on "+m.To+"), or end it (the same with --cancel)")}
}
