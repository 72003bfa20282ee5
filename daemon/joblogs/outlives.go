package joblogs

import (
	"context"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// outlives is what must be known of a pod so that its logs can be read when its Job is gone.
type outlives struct {
	// Containers are those of the pod, in their order; Default is the annotation that names the one that is shown.
	Containers []string `json:"containers"`
	Default    string   `json:"default,omitempty"`
	// Namespace is the UID of its namespace: the logs end with that, and another one of the same name has nothing of them.
	Namespace types.UID `json:"namespace"`
}

// outlivesOf returns nil if the logs of a pod end with its Job.
func outlivesOf(p *corev1.Pod) *outlives {
	if !batch.KeepsLogs(&p.ObjectMeta) {
		return nil
	}
	return &outlives{
		Containers: batch.LogContainers(&batchv1.Job{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: p.Spec}}}),
		Default:    p.Annotations[batch.DefaultContainerAnnotation],
	}
}

// bindOutlives binds the logs that outlive their Job to the namespace that is there now.
func (k *Logs) bindOutlives(r *logRecord) error {
	if r.Outlives == nil {
		return nil
	}
	return k.store.View(func(s *store.Snapshot) error {
		if ns, ok := s.Get(store.Key(objects.Namespaces, "", r.Namespace)); ok {
			r.Outlives.Namespace = types.UID(ns.UID)
		}
		return nil
	})
}

// outlives reports whether the logs of a pod are kept although its Job is gone.
func (k *Logs) outlives(r *logRecord) (bool, error) {
	if r.Outlives == nil || r.Outlives.Namespace == "" {
		return false, nil
	}
	return k.exists(store.Key(objects.Namespaces, "", r.Namespace), r.Outlives.Namespace)
}

type jobName struct{ namespace, name string }

func (r *logRecord) jobName() jobName { return jobName{r.Namespace, r.Job} }

// leaver is a Job that is gone. A younger one of the same name takes its place.
type leaver struct {
	uid     types.UID
	created time.Time // its youngest pod
}

func (k *Logs) leave(r *logRecord) {
	if of := k.left[r.jobName()]; of.uid == "" || !r.Created.Before(of.created) {
		k.left[r.jobName()] = leaver{r.JobUID, r.Created}
	}
}

// Left implements api/server's JobLogs.
func (k *Logs) Left(ctx context.Context, namespace, name string) (*batchv1.Job, error) {
	select {
	case <-k.loaded:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	of, ok := k.left[jobName{namespace, name}]
	if !ok {
		return nil, nil
	}
	var youngest *logRecord
	for _, r := range k.jobs[of.uid] {
		if r.Outlives != nil && (youngest == nil || !r.Created.Before(youngest.Created)) {
			youngest = r
		}
	}
	if youngest == nil {
		return nil, nil
	}
	// What follows from the end of a namespace takes a while, in which another one of that name may have begun.
	if there, err := k.outlives(youngest); err != nil || !there {
		return nil, err
	}
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: of.uid}}
	t := &j.Spec.Template
	t.Annotations = map[string]string{batch.DefaultContainerAnnotation: youngest.Outlives.Default}
	for _, c := range youngest.Outlives.Containers {
		t.Spec.Containers = append(t.Spec.Containers, corev1.Container{Name: c})
	}
	return j, nil
}

// NamespaceGone takes in that a namespace is gone, and with it what Jobs have left there. It returns at once; Run does what follows.
func (k *Logs) NamespaceGone(name string) {
	k.later(func() error { return k.namespaceGone(name) })
}

func (k *Logs) namespaceGone(name string) error {
	k.mu.Lock()
	left := slices.DeleteFunc(slices.Clone(k.gone), func(r *logRecord) bool { return r.Namespace != name || r.Outlives == nil })
	for _, r := range left {
		k.drop(r)
	}
	k.mu.Unlock()
	return k.remove(left)
}
