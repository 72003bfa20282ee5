package main

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/cmd/internal/about"
	"github.com/jobd/jobd/cmd/internal/submit"
	"github.com/jobd/jobd/daemon/causes"
	"github.com/jobd/jobd/daemon/causes/parents"
	"github.com/jobd/jobd/daemon/dependents"
	"github.com/jobd/jobd/daemon/job"
)

// readExplained reads an object that is to be explained.
func readExplained(ctx context.Context, client kubernetes.Interface, o about.Object) (runtime.Object, error) {
	switch o.Resource {
	case "pods":
		return client.CoreV1().Pods(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
	case "cronjobs":
		return client.BatchV1().CronJobs(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
	case "jobsets":
		return submit.GetJobSet(ctx, client, o.Namespace, o.Name)
	}
	return client.BatchV1().Jobs(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
}

// eventsOf bounds for how many pods of a Job events are read.
const eventsOf = 10

// apiQuestion explains an object by what the API of any cluster shows.
type apiQuestion struct {
	ctx    context.Context
	client kubernetes.Interface
}

// explainFromAPI explains an object by what the API of any cluster shows.
func explainFromAPI(ctx context.Context, client kubernetes.Interface, of runtime.Object) (*why.Explanation, error) {
	q := &apiQuestion{ctx, client}
	switch of := of.(type) {
	case *corev1.Pod:
		w := q.world()
		if err := q.events(&w, of.Namespace, of.UID); err != nil {
			return nil, err
		}
		var j *batchv1.Job
		if owner := metav1.GetControllerOfNoCopy(of); owner != nil && owner.Kind == "Job" {
			if found, err := client.BatchV1().Jobs(of.Namespace).Get(ctx, owner.Name, metav1.GetOptions{}); err == nil && found.UID == owner.UID {
				j = found
			}
		}
		return causes.Pod(w, of, j), nil
	case *batchv1.CronJob:
		return q.cronJob(of)
	case *jobsetv1.JobSet:
		return q.jobSet(of)
	}
	return q.job(of.(*batchv1.Job))
}

func (q *apiQuestion) world() causes.World {
	return causes.World{Now: time.Now(), Source: why.FromAPI, Missing: q.missing, Log: q.log}
}

func (q *apiQuestion) job(j *batchv1.Job) (*why.Explanation, error) {
	j = j.DeepCopy() // without what only jobd heeds
	delete(j.Annotations, batch.BackoffBaseAnnotation)
	delete(j.Annotations, batch.BackoffCapAnnotation)
	delete(j.Annotations, batch.AttemptsAnnotation)
	w := q.world()
	list, err := q.client.CoreV1().Pods(j.Namespace).List(q.ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(j.Spec.Selector)})
	if err != nil {
		return nil, err
	}
	var pods []*corev1.Pod
	subjects := []types.UID{j.UID}
	for i := range list.Items {
		p := &list.Items[i]
		if !metav1.IsControlledBy(p, j) {
			continue
		}
		pods = append(pods, p)
		if p.Status.Phase != corev1.PodSucceeded && len(subjects) <= eventsOf {
			subjects = append(subjects, p.UID)
		}
	}
	if err := q.events(&w, j.Namespace, subjects...); err != nil {
		return nil, err
	}
	if batch.End(&j.Status) == nil {
		record := job.NewRecord(j, job.MemoryOf(j, pods))
		for _, p := range pods {
			record.SetPod(job.Summarize(p))
		}
		standing := record.Standing(job.Settings{})
		w.Standing = &standing
	}
	for _, p := range pods {
		addDependent(&w, j, "Pod", p)
	}
	return causes.Job(w, j, pods), nil
}

// addDependent adds an object for which the deletion of its owner waits, if it does. Of a cluster, only pods and Jobs are looked at.
func addDependent(w *causes.World, owner metav1.Object, kind string, obj metav1.Object) {
	if dependents.Awaits(owner) && storage.BlocksOwner(obj, owner) {
		w.Dependents.Add(dependents.Dependent{Object: obj, Kind: kind})
	}
}

func (q *apiQuestion) cronJob(cj *batchv1.CronJob) (*why.Explanation, error) {
	w := q.world()
	if err := q.events(&w, cj.Namespace, cj.UID); err != nil {
		return nil, err
	}
	list, err := q.client.BatchV1().Jobs(cj.Namespace).List(q.ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var jobs []*batchv1.Job
	for i := range list.Items {
		if batch.IsRunOf(&list.Items[i], cj) {
			jobs = append(jobs, &list.Items[i])
		}
	}
	for _, j := range jobs {
		addDependent(&w, cj, "Job", j)
	}
	var last *why.Explanation
	if j := parents.LastEnded(jobs); j != nil && batch.End(&j.Status).Type == batchv1.JobFailed {
		if last, err = q.job(j); err != nil {
			return nil, err
		}
	}
	return parents.CronJob(w, cj, jobs, last), nil
}

func (q *apiQuestion) jobSet(js *jobsetv1.JobSet) (*why.Explanation, error) {
	w := q.world()
	if err := q.events(&w, js.Namespace, js.UID); err != nil {
		return nil, err
	}
	list, err := q.client.BatchV1().Jobs(js.Namespace).List(q.ctx, metav1.ListOptions{LabelSelector: jobsetv1.JobSetNameKey + "=" + js.Name})
	if err != nil {
		return nil, err
	}
	var jobs []*batchv1.Job
	for i := range list.Items {
		if _, owner := batch.SetOf(&list.Items[i]); owner == js.UID {
			jobs = append(jobs, &list.Items[i])
		}
	}
	for _, j := range jobs {
		addDependent(&w, js, "Job", j)
	}
	var told *why.Explanation
	if j := parents.JobOfSet(js, jobs); j != nil {
		if told, err = q.job(j); err != nil {
			return nil, err
		}
	}
	return parents.JobSet(w, js, jobs, told), nil
}

// events reads the events about objects.
func (q *apiQuestion) events(w *causes.World, namespace string, subjects ...types.UID) error {
	for _, uid := range subjects {
		list, err := q.client.CoreV1().Events(namespace).List(q.ctx, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector("involvedObject.uid", string(uid)).String(),
		})
		if apierrors.IsForbidden(err) {
			return nil // the rest still says something
		}
		if err != nil {
			return err
		}
		w.Events = append(w.Events, list.Items...)
	}
	return nil
}

func (q *apiQuestion) missing(kind, namespace, name string) (missing, known bool) {
	var err error
	switch kind {
	case "Secret":
		_, err = q.client.CoreV1().Secrets(namespace).Get(q.ctx, name, metav1.GetOptions{})
	case "PersistentVolumeClaim":
		_, err = q.client.CoreV1().PersistentVolumeClaims(namespace).Get(q.ctx, name, metav1.GetOptions{})
	default:
		_, err = q.client.CoreV1().ConfigMaps(namespace).Get(q.ctx, name, metav1.GetOptions{})
	}
	return apierrors.IsNotFound(err), err == nil || apierrors.IsNotFound(err)
}

// log returns the last lines that a container has written; nothing if they cannot be had.
func (q *apiQuestion) log(p *corev1.Pod, container string, previous bool) []string {
	return why.LogLines(q.client.CoreV1().Pods(p.Namespace).GetLogs(p.Name, why.LogOptions(container, previous)).Stream(q.ctx))
}
