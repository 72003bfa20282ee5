package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kubernetes/pkg/controller/cronjob"
	"k8s.io/kubernetes/pkg/controller/job"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
)

var (
	podsOf     = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	cronJobsOf = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "cronjobs"}
	jobsOf     = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
)

// theirs are Kubernetes' controllers of Jobs and CronJobs. What an API server and a kubelet do beside it is played here.
type theirs struct {
	ctx     context.Context
	client  *fake.Clientset
	stop    func()
	beside  sync.WaitGroup
	mu      sync.Mutex // of what is written, whose versions grow, and what is said
	running func()     // of the controller
	said    []string
	failed  []error
}

func newTheirs() *theirs {
	h := &theirs{client: fake.NewSimpleClientset()}
	h.ctx, h.stop = context.WithCancel(context.Background())
	plain := clienttesting.ObjectReaction(h.client.Tracker())
	h.client.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		p := a.(clienttesting.CreateAction).GetObject().(*corev1.Pod).DeepCopy()
		p.Name, p.UID, p.CreationTimestamp = p.GenerateName+rand.String(5), types.UID(rand.String(16)), now()
		p.Namespace, p.Spec.NodeName, p.Status.Phase = namespace, "node", corev1.PodPending
		h.mu.Lock()
		defer h.mu.Unlock()
		p = stored(p)
		err := h.client.Tracker().Create(podsOf, p, namespace)
		h.later(0, func() { h.start(p.Name) })
		return true, p, err
	})
	h.client.PrependReactor("delete", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, h.deletePod(a.(clienttesting.DeleteAction).GetName())
	})
	h.client.PrependReactor("patch", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		_, o, err := plain(a)
		if err != nil {
			return true, nil, err
		}
		return true, h.update(o.(*corev1.Pod)), nil
	})
	h.client.PrependReactor("delete", "jobs", func(a clienttesting.Action) (bool, runtime.Object, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		name := a.(clienttesting.DeleteAction).GetName()
		o, err := h.client.Tracker().Get(jobsOf, namespace, name)
		if err != nil {
			return true, nil, err
		}
		// The last event of an object has a version of its own, or what follows this kind seems to be behind.
		h.must(h.client.Tracker().Update(jobsOf, stored(o.(*batchv1.Job)), namespace))
		return true, nil, h.client.Tracker().Delete(jobsOf, namespace, name)
	})
	// Events of one moment would have one name here, where time stands still.
	h.client.PrependReactor("*", "events", func(a clienttesting.Action) (bool, runtime.Object, error) {
		c, ok := a.(clienttesting.CreateAction)
		if !ok {
			return true, &corev1.Event{}, nil
		}
		e := c.GetObject().(*corev1.Event)
		h.mu.Lock()
		defer h.mu.Unlock()
		if e.InvolvedObject.Kind == "Job" {
			h.said = append(h.said, e.Reason+": "+e.Message)
		}
		return true, e, nil
	})
	h.client.PrependReactor("create", "jobs", func(a clienttesting.Action) (bool, runtime.Object, error) {
		j := a.(clienttesting.CreateAction).GetObject().(*batchv1.Job).DeepCopy()
		j.Namespace, j.UID, j.CreationTimestamp = namespace, types.UID(rand.String(16)), now()
		kind := batch.JobKind()
		kind.Default(j)
		kind.Strategy.PrepareForCreate(h.ctx, j)
		h.mu.Lock()
		defer h.mu.Unlock()
		j = stored(j)
		return true, j, h.client.Tracker().Create(jobsOf, j, namespace)
	})
	h.client.PrependReactor("update", "cronjobs", func(a clienttesting.Action) (bool, runtime.Object, error) {
		c := a.(clienttesting.UpdateAction).GetObject().(*batchv1.CronJob)
		h.mu.Lock()
		defer h.mu.Unlock()
		if err := h.current(cronJobsOf, c); err != nil {
			return true, nil, err
		}
		c = stored(c)
		return true, c, h.client.Tracker().Update(cronJobsOf, c, namespace)
	})
	h.client.PrependReactor("update", "jobs", func(a clienttesting.Action) (bool, runtime.Object, error) {
		j := a.(clienttesting.UpdateAction).GetObject().(*batchv1.Job)
		h.mu.Lock()
		defer h.mu.Unlock()
		if err := h.current(jobsOf, j); err != nil {
			return true, nil, err
		}
		j = stored(j)
		return true, j, h.client.Tracker().Update(jobsOf, j, namespace)
	})
	h.begin()
	return h
}

// begin starts the controllers.
func (h *theirs) begin() {
	ctx, stop := context.WithCancel(h.ctx)
	all := informers.NewSharedInformerFactory(h.client, 0)
	c, err := job.NewController(ctx, h.client, all.Core().V1().Pods(), all.Batch().V1().Jobs(), nil, nil)
	if err != nil {
		panic(err)
	}
	cron, err := cronjob.NewControllerV2(ctx, all.Batch().V1().Jobs(), all.Batch().V1().CronJobs(), h.client)
	if err != nil {
		panic(err)
	}
	all.Start(ctx.Done())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx, 1) })
	running.Go(func() { cron.Run(ctx, 1) })
	h.running = func() {
		stop()
		running.Wait()
		all.Shutdown()
	}
}

func (h *theirs) end() {
	h.running()
	h.stop()
	h.beside.Wait()
}

// later does something after a while, unless everything ends before.
func (h *theirs) later(d time.Duration, do func()) {
	h.beside.Go(func() {
		select {
		case <-h.ctx.Done():
		case <-time.After(d):
			do()
		}
	})
}

// current refuses a version of an object that another one has followed.
func (h *theirs) current(of schema.GroupVersionResource, o metav1.Object) error {
	now, err := h.client.Tracker().Get(of, namespace, o.GetName())
	if err == nil && now.(metav1.Object).GetResourceVersion() != o.GetResourceVersion() {
		err = apierrors.NewConflict(of.GroupResource(), o.GetName(), errors.New("it has changed"))
	}
	return err
}

func (h *theirs) create(j *batchv1.Job) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.must(h.client.Tracker().Create(jobsOf, stored(j), namespace))
}

func (h *theirs) edit(change func(*batchv1.Job)) {
	j := h.job()
	change(j)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.must(h.client.Tracker().Update(jobsOf, stored(j), namespace))
}

func (h *theirs) job() *batchv1.Job {
	j, err := h.client.BatchV1().Jobs(namespace).Get(h.ctx, jobName, metav1.GetOptions{})
	h.must(err)
	return j
}

func (h *theirs) createCronJob(c *batchv1.CronJob) {
	h.must(h.client.Tracker().Create(cronJobsOf, stored(c), namespace))
}

func (h *theirs) editCronJob(change func(*batchv1.CronJob)) {
	c := h.cronJob()
	change(c)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.must(h.client.Tracker().Update(cronJobsOf, stored(c), namespace))
}

func (h *theirs) cronJob() *batchv1.CronJob {
	c, err := h.client.BatchV1().CronJobs(namespace).Get(h.ctx, cronJobName, metav1.GetOptions{})
	h.must(err)
	return c
}

func (h *theirs) jobs() (all []*batchv1.Job) {
	list, err := h.client.BatchV1().Jobs(namespace).List(h.ctx, metav1.ListOptions{})
	h.must(err)
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all
}

func (h *theirs) deleteJob(name string) {
	h.must(h.client.BatchV1().Jobs(namespace).Delete(h.ctx, name, metav1.DeleteOptions{}))
}

func (h *theirs) pods() (all []*corev1.Pod) {
	list, err := h.client.CoreV1().Pods(namespace).List(h.ctx, metav1.ListOptions{})
	h.must(err)
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all
}

func (h *theirs) events() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.said)
}

func (h *theirs) must(err error) {
	if err != nil {
		h.failed = append(h.failed, err)
	}
}

func (h *theirs) err() error { return errors.Join(h.failed...) }

// change changes a pod as a kubelet does.
func (h *theirs) change(name string, change func(*corev1.Pod)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o, err := h.client.Tracker().Get(podsOf, namespace, name)
	if apierrors.IsNotFound(err) {
		return
	}
	h.must(err)
	p := o.(*corev1.Pod).DeepCopy()
	change(p)
	h.update(p)
}

// update stores a pod, and removes one that was deleted, does not run, and has no finalizers.
func (h *theirs) update(p *corev1.Pod) *corev1.Pod {
	p = stored(p)
	h.must(h.client.Tracker().Update(podsOf, p, namespace))
	if p.DeletionTimestamp != nil && ended(p) && len(p.Finalizers) == 0 {
		h.must(h.client.Tracker().Delete(podsOf, namespace, p.Name))
	}
	return p
}

func (h *theirs) start(name string) {
	h.change(name, func(p *corev1.Pod) {
		if ended(p) {
			return
		}
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = append(p.Status.Conditions,
			corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now()})
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", Ready: true, State: corev1.ContainerState{
			Running: &corev1.ContainerStateRunning{StartedAt: now()},
		}}}
	})
}

func (h *theirs) exit(p *corev1.Pod, code int32) {
	h.change(p.Name, func(p *corev1.Pod) {
		if ended(p) {
			return
		}
		p.Status.Phase = corev1.PodSucceeded
		if code != 0 {
			p.Status.Phase = corev1.PodFailed
		}
		for i := range p.Status.Conditions {
			if c := &p.Status.Conditions[i]; c.Type == corev1.PodReady {
				c.Status, c.LastTransitionTime = corev1.ConditionFalse, now()
			}
		}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: now()},
		}}}
	})
}

func (h *theirs) disrupt(p *corev1.Pod, c corev1.PodCondition) {
	h.change(p.Name, func(p *corev1.Pod) { p.Status.Conditions = append(p.Status.Conditions, c) })
	h.deleted(p)
}

func (h *theirs) deleted(p *corev1.Pod) { h.must(h.deletePod(p.Name)) }

// deletePod lets a pod end in its time, as an API server does, and then a kubelet.
func (h *theirs) deletePod(name string) error {
	if _, err := h.client.Tracker().Get(podsOf, namespace, name); err != nil {
		return err
	}
	h.change(name, func(p *corev1.Pod) {
		if p.DeletionTimestamp == nil {
			p.DeletionTimestamp = ptr.To(now())
			h.later(grace, func() { h.exit(p, 137) })
		}
	})
	return nil
}

func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// now is the time as an API server stores it.
func now() metav1.Time { return metav1.Now().Rfc3339Copy() }

var version atomic.Int64

// stored returns a new version of an object as it is read again: times have no fractions of a second.
func stored[T any, P interface {
	*T
	metav1.Object
}](o P) P {
	text, err := json.Marshal(o)
	if err == nil {
		o = new(T)
		err = json.Unmarshal(text, o)
	}
	if err != nil {
		panic(fmt.Sprint("encode: ", err))
	}
	o.SetResourceVersion(fmt.Sprint(version.Add(1)))
	return o
}
