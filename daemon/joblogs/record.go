package joblogs

import (
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/daemon/objects"
)

// logRecordFile lies beside the logs of a Job's pod.
const logRecordFile = "pod.json"

// logRecord says which pod and Job the logs in a directory belong to. It is written before the first container is
// started, so that no crash leaves a log without an owner.
type logRecord struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	Job       string    `json:"job"`
	JobUID    types.UID `json:"jobUID"`
	// Index is the pod's completion index, nil if it has none.
	Index *int `json:"index,omitempty"`
	// Attempt is that of the Job, from 1. Try counts the pods of its index within the attempt, from 1; 0 if it has no index, or
	// that is not known.
	Attempt int       `json:"attempt,omitempty"`
	Try     int       `json:"try,omitempty"`
	Created time.Time `json:"created"`
	// Gone is when the pod's object was removed, and Size the size of what it left, in bytes.
	Gone time.Time `json:"gone,omitzero"`
	Size int64     `json:"size,omitempty"`
	// Outlives is what the logs need that are kept after the Job is gone (batch.KeepLogsAnnotation); nil for all others.
	Outlives *outlives `json:"outlives,omitempty"`
}

func newLogRecord(p *corev1.Pod) *logRecord {
	r := &logRecord{
		Namespace: p.Namespace, Name: p.Name, UID: p.UID, JobUID: objects.ControllingJob(p),
		Created: p.CreationTimestamp.Time,
	}
	if r.JobUID != "" {
		r.Job, r.Attempt = metav1.GetControllerOfNoCopy(p).Name, batch.PodAttempt(p.Annotations)
		r.Outlives = outlivesOf(p)
	}
	if i, err := strconv.Atoi(p.Annotations[batchv1.JobCompletionIndexAnnotation]); err == nil {
		r.Index = &i
	}
	return r
}

// indexAttempt is an index of a Job in an attempt of the Job.
type indexAttempt struct{ index, attempt int32 }

func (r *logRecord) indexAttempt() indexAttempt {
	return indexAttempt{int32(*r.Index), int32(r.Attempt)}
}
