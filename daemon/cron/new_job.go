package cron

import (
	"fmt"
	"maps"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NewJob makes the Job of a scheduled time from the CronJob's template, without what the server sets in a new object.
// Its name contains the minute, so that no Job is started twice for the same time.
func NewJob(cj *batchv1.CronJob, at time.Time) (*batchv1.Job, error) {
	in, err := zone(&cj.Spec)
	if err != nil {
		return nil, err
	}
	template := &cj.Spec.JobTemplate
	annotations := maps.Clone(template.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[batchv1.CronJobScheduledTimestampAnnotation] = at.In(in).Format(time.RFC3339)
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name:        fmt.Sprintf("%s-%d", cj.Name, at.Unix()/60),
			Namespace:   cj.Namespace,
			Labels:      maps.Clone(template.Labels),
			Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(cj, batchv1.SchemeGroupVersion.WithKind("CronJob")),
			},
		},
		Spec: *template.Spec.DeepCopy(),
	}, nil
}

// Started records in the status that the Job of a scheduled time exists, in the given revision.
func Started(s *batchv1.CronJobStatus, j *batchv1.Job, revision string, at time.Time) {
	s.LastScheduleTime = &metav1.Time{Time: at}
	if end(j) != "" || slices.ContainsFunc(s.Active, func(ref corev1.ObjectReference) bool { return ref.UID == j.UID }) {
		return
	}
	s.Active = append(s.Active, corev1.ObjectReference{
		APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job",
		Namespace: j.Namespace, Name: j.Name, UID: j.UID, ResourceVersion: revision,
	})
}

// Created returns the event of a Job that was created.
func Created(name string) Event {
	return Event{corev1.EventTypeNormal, "SuccessfulCreate", "Created job " + name}
}

// CreationFailed returns the event of a Job that could not be created.
func CreationFailed(err error) Event {
	return Event{corev1.EventTypeWarning, "FailedCreate", fmt.Sprintf("Error creating job: %v", err)}
}
