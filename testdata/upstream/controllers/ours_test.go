package controllers

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/runtime"
)

// ours is jobd's loop, whose containers end as they are told.
type ours struct {
	*controltest.World
	containers *told
}

func newOurs(t *testing.T) *ours {
	o := &ours{World: controltest.New(t), containers: &told{all: map[string]*runtime.Status{}}}
	o.Between = func(below runtime.Runtime) runtime.Runtime {
		o.containers.Runtime = below
		return o.containers
	}
	o.restart()
	return o
}

func (o *ours) restart() {
	o.Stop()
	o.Start()
	synctest.Wait()
}

func (o *ours) end() { o.End() }

func (o *ours) create(j *batchv1.Job) {
	j = j.DeepCopy()
	o.Put(objects.Key(objects.Jobs, j), j)
	synctest.Wait()
}

func (o *ours) edit(change func(*batchv1.Job)) {
	j := o.job()
	change(j)
	o.Put(objects.Key(objects.Jobs, j), j)
	synctest.Wait()
}

func (o *ours) job() *batchv1.Job   { return o.Job(jobName) }
func (o *ours) pods() []*corev1.Pod { return o.Pods() }
func (o *ours) events() []string    { return o.Events(jobName) }

func (o *ours) createCronJob(c *batchv1.CronJob) {
	c = c.DeepCopy()
	o.Put(objects.Key(objects.CronJobs, c), c)
	synctest.Wait()
}

func (o *ours) editCronJob(change func(*batchv1.CronJob)) {
	c := o.cronJob()
	change(c)
	o.Put(objects.Key(objects.CronJobs, c), c)
	synctest.Wait()
}

func (o *ours) cronJob() *batchv1.CronJob { return o.CronJob(cronJobName) }

func (o *ours) jobs() (all []*batchv1.Job) {
	for _, name := range o.JobNames() {
		all = append(all, o.Job(name))
	}
	return all
}

func (o *ours) deleteJob(name string) {
	j := o.Job(name)
	o.Delete(objects.Key(objects.Jobs, j), j)
}

func (o *ours) exit(p *corev1.Pod, code int32) {
	o.containers.exit(string(p.UID), int(code))
	synctest.Wait()
}

func (o *ours) disrupt(p *corev1.Pod, c corev1.PodCondition) {
	p.Status.Conditions = append(p.Status.Conditions, c)
	o.deleted(p)
}

func (o *ours) deleted(p *corev1.Pod) {
	storage.MarkDeleted(p, time.Now(), int64(grace.Seconds()))
	o.Put(objects.Key(objects.Pods, p), p)
	synctest.Wait()
}

// told is a runtime whose containers start at once, and end when they are told to, or killed.
type told struct {
	runtime.Runtime
	mu     sync.Mutex
	all    map[string]*runtime.Status
	onExit func(runtime.Status)
}

func (r *told) OnExit(fn func(runtime.Status)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.onExit = fn
}

func (r *told) Containers(context.Context) (list []runtime.Status, _ error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.all {
		list = append(list, *s)
	}
	return list, nil
}

func (r *told) Start(_ context.Context, c runtime.Container) (runtime.Status, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.all[c.ID]
	if s == nil {
		s = &runtime.Status{ID: c.ID, PodUID: c.PodUID, Name: c.Name, Attempt: c.Attempt, State: runtime.Running, StartedAt: time.Now()}
		r.all[c.ID] = s
	}
	return *s, nil
}

func (r *told) Signal(_ context.Context, id string, sig syscall.Signal, _ bool) error {
	if sig == syscall.SIGKILL {
		return r.finish(func(s *runtime.Status) bool { return s.ID == id }, 137)
	}
	return nil
}

func (*told) SignalOnce(context.Context, string, syscall.Signal) error { return nil }

func (r *told) Remove(_ context.Context, id string) error {
	_ = r.finish(func(s *runtime.Status) bool { return s.ID == id }, 137)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, id)
	return nil
}

func (r *told) exit(podUID string, code int) {
	_ = r.finish(func(s *runtime.Status) bool { return s.PodUID == podUID }, code)
}

// finish ends a container that runs.
func (r *told) finish(is func(*runtime.Status) bool, code int) error {
	r.mu.Lock()
	var found *runtime.Status
	for _, s := range r.all {
		if s.State == runtime.Running && is(s) {
			found = s
			s.State, s.ExitCode, s.FinishedAt = runtime.Exited, code, time.Now()
			break
		}
	}
	tell := r.onExit
	r.mu.Unlock()
	if found == nil {
		return fmt.Errorf("no such container runs: %w", errdefs.ErrNotFound)
	}
	tell(*found)
	return nil
}
