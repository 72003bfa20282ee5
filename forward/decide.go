package forward

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/api/conditions"
)

// Step is what is to be done next for a Job.
type Step string

// The steps. Each changes what Decide looks at, so that one that was interrupted is taken again, or the next one.
const (
	Nothing Step = "nothing"
	// Take puts the finalizer and the record on the Job here, before anything is made there.
	Take Step = "take"
	// Create makes the Job there.
	Create Step = "create"
	// Adopt records the Job there that was made.
	Adopt Step = "adopt"
	// Fail ends the Job here that somebody has removed there.
	Fail Step = "fail"
	// Pass passes on what was changed here.
	Pass Step = "pass"
	// Bring brings back pods, logs and then the status.
	Bring Step = "bring"
	// Remove removes the Job there.
	Remove Step = "remove"
	// Release takes the finalizer off the Job here.
	Release Step = "release"
	// Sweep removes the Job there that has the name, and whose Job here is gone.
	Sweep Step = "sweep"
	// TellTaken says in the status that another Job has the name there, TellUnreachable that the cluster does not answer, and TellElsewhere
	// that what is seen there says nothing of the Job.
	TellTaken       Step = "tell that the name is taken"
	TellUnreachable Step = "tell that the cluster is unreachable"
	TellElsewhere   Step = "tell that it is another cluster, or another machine's"
)

// patience is how long a cluster may fail to answer before its Jobs say so.
const patience = 30 * time.Second

// Seen is what is known of a Job. Nothing of it is older than the last step that was taken for the Job.
type Seen struct {
	Local  *batchv1.Job // nil: there is none
	Remote *batchv1.Job // of that name in the namespace there that its record names, or is to name; nil: there is none
	// Namespace is the one there in which it is made, if it was not yet.
	Namespace string
	// Silent is since when the cluster does not answer, and Remote is not known; zero: it does.
	Silent time.Time
	// Cluster tells the cluster that is reached from others; it is known if Remote was not made of Local, and empty if that may not be known.
	Cluster types.UID
	// Origin marks what this jobd has made there.
	Origin Origin
}

// Decide says what is to be done next, and when to ask again if nothing changes before; zero: not at all.
func Decide(s Seen, now time.Time) (step Step, again time.Time) {
	l := s.Local
	switch {
	case l == nil:
		return Nothing, again
	case !slices.Contains(l.Finalizers, clusters.Finalizer):
		if l.DeletionTimestamp != nil || batch.End(&l.Status) != nil {
			return Nothing, again
		}
		return Take, again
	case !s.Silent.IsZero():
		return s.silence(now)
	case s.elsewhere() != "":
		return s.kept(now)
	case l.DeletionTimestamp != nil:
		return s.deleted(now)
	case !s.mine():
		return s.absent(now)
	}
	switch r, end := s.Remote, batch.End(&l.Status); {
	case end != nil && !finished(r) && r.DeletionTimestamp == nil: // as one that a backup of the cluster has brought back
		return Remove, again
	case end != nil && (!finished(r) || batch.End(&r.Status).Type != end.Type):
		return Nothing, again // how it has ended does not change
	case clusters.RecordOf(l) == nil || clusters.RecordOf(l).UID == "":
		return Adopt, again
	case s.passes():
		return Pass, again
	case !finished(r) && ptr.Deref(l.Spec.Suspend, false) && ptr.Deref(r.Spec.Suspend, false) && !is(r, batchv1.JobSuspended):
		return Nothing, again // it is being suspended there, and the start time would stay here
	case len(Statuses(l, r, now)) > 0:
		return Bring, again
	}
	return Nothing, again
}

// silence decides while the cluster does not answer.
func (s Seen) silence(now time.Time) (Step, time.Time) {
	switch enough := s.Silent.Add(patience); {
	case is(s.Local, clusters.Unreachable), finished(s.Local):
		return Nothing, time.Time{}
	case now.Before(enough):
		return Nothing, enough
	}
	return TellUnreachable, time.Time{}
}

// elsewhere returns why what is seen there tells nothing of the Job here; empty if it does. Then its record was made by another machine, of
// whose state this one has a copy; or the Job is not found, and may be in another cluster than the one that is reached.
func (s Seen) elsewhere() (reason string) {
	switch record := clusters.RecordOf(s.Local); {
	case record == nil:
		return ""
	case record.Machine != "" && record.Machine != s.Origin.Machine:
		return clusters.ReasonOtherMachine
	case record.Cluster != "" && record.Cluster != s.Cluster && !s.mine():
		return clusters.ReasonOtherCluster
	}
	return ""
}

// kept decides about a Job that is elsewhere, and is left there as it is. One that has ended need not wait for that.
func (s Seen) kept(now time.Time) (Step, time.Time) {
	switch l := s.Local; {
	case finished(l) && l.DeletionTimestamp != nil:
		return Release, time.Time{}
	case finished(l):
		return Nothing, time.Time{}
	case !says(l, clusters.Unreachable, s.elsewhere()):
		return TellElsewhere, now.Add(retaken)
	}
	return Nothing, now.Add(retaken)
}

// mine reports whether the Job there was made of the one here.
func (s Seen) mine() bool {
	r, record := s.Remote, clusters.RecordOf(s.Local)
	return r != nil && s.ours() && r.Labels[clusters.OriginUIDLabel] == string(s.Local.UID) &&
		(record == nil || record.UID == "" || record.UID == r.UID)
}

// ours reports whether this jobd has made the Job there.
func (s Seen) ours() bool { return s.Remote.Labels[clusters.OriginLabel] == string(s.Origin.Jobd) }

// removal is how often it is looked whether a Job there is gone.
const removal = 2 * time.Second

func (s Seen) deleted(now time.Time) (Step, time.Time) {
	switch {
	case !s.mine():
		return Release, time.Time{}
	case s.Remote.DeletionTimestamp == nil:
		return Remove, time.Time{}
	case slices.Contains(s.Local.Finalizers, metav1.FinalizerDeleteDependents): // whoever waits for the one here waits for the pods there
		return Nothing, now.Add(removal)
	}
	return Release, time.Time{}
}

// retaken is how often something there is looked at again whose changes nobody reports, for example whether a name is free by
// now.
const retaken = 30 * time.Second

// absent decides about a Job that is not there.
func (s Seen) absent(now time.Time) (Step, time.Time) {
	record := clusters.RecordOf(s.Local)
	switch {
	case finished(s.Local):
		return Nothing, time.Time{}
	case record != nil && record.UID != "":
		return Fail, time.Time{}
	case record == nil, record.Namespace != s.Namespace, // it is not where it may have been made, so it can be made elsewhere
		record.Cluster == "" && s.Cluster != "": // the cluster did not answer when it was taken
		return Take, time.Time{}
	case s.Remote == nil:
		return Create, time.Time{}
	case s.ours() && s.Remote.DeletionTimestamp != nil:
		return Nothing, now.Add(removal)
	case s.ours():
		return Sweep, now.Add(removal)
	case !says(s.Local, clusters.NotForwarded, clusters.ReasonNameTaken):
		return TellTaken, now.Add(retaken)
	}
	return Nothing, now.Add(retaken)
}

// says reports whether a Job has a condition with a reason.
func says(j *batchv1.Job, t batchv1.JobConditionType, reason string) bool {
	c := conditions.Find(j.Status.Conditions, t)
	return c != nil && c.Reason == reason
}

// is reports whether a condition of a Job is true.
func is(j *batchv1.Job, t batchv1.JobConditionType) bool {
	return batch.ConditionTrue(j.Status.Conditions, t)
}
