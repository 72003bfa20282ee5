// Package clusters says how a Job that runs in another cluster is marked, here and there: what `jobd forward` writes, and the daemon and
// jobctl read.
package clusters

import (
	"encoding/json"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

const prefix = "clusters.jobd.dev/"

// Names of what is written into objects.
const (
	// Finalizer keeps a Job here until the one there is removed.
	Finalizer = prefix + "remote"
	// RecordAnnotation is on a Job here: its Record.
	RecordAnnotation = prefix + "record"
	// OriginLabel is on all that is made there: which jobd has made it. OriginUIDLabel is the UID of the Job here, and MachineLabel tells the
	// machine from those that have a copy of its state, and with it the same jobd.
	OriginLabel    = prefix + "origin"
	OriginUIDLabel = prefix + "origin-uid"
	MachineLabel   = prefix + "machine"
	// NamespaceAnnotation is on all that is made there but pods: the namespace of the Job here. JobAnnotation is its name, where that is not
	// the object's own.
	NamespaceAnnotation = prefix + "namespace"
	JobAnnotation       = prefix + "job"
	// SentAnnotation is on a Job there: those fields of the one here that may change, as they were passed on last.
	SentAnnotation = prefix + "sent"
)

// Conditions of a Job here, which are gone once they do not hold.
const (
	// Unreachable: the cluster does not answer.
	Unreachable batchv1.JobConditionType = prefix + "Unreachable"
	// NotForwarded: the Job cannot be made there.
	NotForwarded batchv1.JobConditionType = prefix + "NotForwarded"
)

// Reasons of conditions.
const (
	// ReasonNameTaken: another Job has the name there.
	ReasonNameTaken = "NameTaken"
	// ReasonRefused: the cluster refuses the Job, or it would not run there as it does here.
	ReasonRefused = "Refused"
	// ReasonOtherCluster: the forwarder reaches another cluster than the one in which the Job was made, or may have been.
	ReasonOtherCluster = "OtherCluster"
	// ReasonOtherMachine: another machine has made the Job there, and this one has a copy of its state.
	ReasonOtherMachine = "OtherMachine"
	// ReasonRemoteJobDeleted is why a Job failed that somebody has removed there.
	ReasonRemoteJobDeleted = "RemoteJobDeleted"
)

// Manager returns the value of spec.managedBy for the Jobs of a cluster.
func Manager(cluster string) string { return prefix + cluster }

// Of returns the cluster in which a Job is to run; empty if it is to run in none.
func Of(j *batchv1.Job) string {
	if IsOverflowed(j) {
		return OverflowTo(j)
	}
	return managedAs(j, prefix)
}

// managedAs returns what follows a prefix in spec.managedBy; empty if that has another one.
func managedAs(j *batchv1.Job, prefix string) string {
	if cluster, ok := strings.CutPrefix(ptr.Deref(j.Spec.ManagedBy, ""), prefix); ok {
		return cluster
	}
	return ""
}

// IsMark reports whether the name of a label, an annotation or a condition is one of those.
func IsMark(name string) bool { return strings.HasPrefix(name, prefix) }

// Record is what is known of the Job there. It is written before that is made, and again once it is, so that whatever is interrupted it is
// made once.
type Record struct {
	// Job is the UID of the Job here: the annotation of one that was made of the manifest of another tells nothing.
	Job types.UID `json:"job"`
	// UID is that of the Job there; empty before it is known that it was made.
	UID types.UID `json:"uid,omitempty"`
	// Namespace is that of the Job there.
	Namespace string `json:"namespace"`
	// Cluster tells the cluster in which it is, or may be, from others; empty if that is not known.
	Cluster types.UID `json:"cluster,omitempty"`
	// Machine tells the machine that has made it, or was to, from those that have a copy of its state; empty if that is not known.
	Machine string `json:"machine,omitempty"`
	// Came is when it was known here that the Job has ended, if that was long afterwards by the clock of the cluster.
	Came *metav1.Time `json:"came,omitempty"`
}

// RecordOf returns the record of a Job; nil if it has none, that of another Job, or one that somebody has spoiled. Whoever may change the Job
// may write it, so nothing follows from it for what is not the Job's own.
func RecordOf(j *batchv1.Job) *Record {
	text, ok := j.Annotations[RecordAnnotation]
	if !ok {
		return nil
	}
	r := &Record{}
	if err := json.Unmarshal([]byte(text), r); err != nil || r.Job != j.UID {
		return nil
	}
	return r
}

// Ended returns when a Job has ended for those who wait for it here, by the time that its status says: not before that was known here.
func Ended(j *batchv1.Job, at time.Time) time.Time {
	if Of(j) == "" {
		return at
	}
	if r := RecordOf(j); r != nil && r.Came != nil && r.Came.After(at) {
		return r.Came.Time
	}
	return at
}

// Annotation returns the record as text.
func (r Record) Annotation() string {
	text, err := json.Marshal(r)
	if err != nil { // it consists of strings and a time
		panic(err)
	}
	return string(text)
}

// LeaseNamespace is where a forwarder renews a Lease, so that it is known that it is there.
const LeaseNamespace = metav1.NamespaceSystem

// LeaseName returns the name of the Lease of a cluster's forwarder.
func LeaseName(cluster string) string { return "jobd-forward-" + cluster }

// LeaseSeconds is how long a forwarder counts as there after it has renewed its Lease.
const LeaseSeconds = 40

// Served reports whether a forwarder has renewed its Lease in time; nil: there is none.
func Served(l *coordinationv1.Lease, now time.Time) bool {
	return l != nil && l.Spec.RenewTime != nil &&
		now.Sub(l.Spec.RenewTime.Time) < time.Duration(ptr.Deref(l.Spec.LeaseDurationSeconds, LeaseSeconds))*time.Second
}

// Lease returns the Lease of a forwarder that is there now.
func Lease(cluster string, now time.Time) *coordinationv1.Lease {
	at := metav1.NewMicroTime(now)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: LeaseNamespace, Name: LeaseName(cluster)},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To(LeaseName(cluster)), LeaseDurationSeconds: ptr.To[int32](LeaseSeconds), RenewTime: &at,
		},
	}
}

// LogEnd is where the log of a container ends: the time of its last line, and how many of its last lines have that time. A forwarder says by
// it after which line the ones that it brings come, so that none is there twice.
type LogEnd struct {
	Time  time.Time `json:"time,omitzero"`
	Lines int       `json:"lines,omitempty"`
}

// MostLog is how many bytes of a log are brought at once at most.
const MostLog = 1 << 20
