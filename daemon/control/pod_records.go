package control

import (
	"iter"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/daemon/allotment"
	"github.com/jobd/jobd/daemon/aside"
	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/node"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/daemon/worker"
	"github.com/jobd/jobd/store"
)

// podRecords are the pods that still wait, run or have to be counted.
type podRecords struct {
	workers *worker.Pool
	aside   *aside.List
	known   map[types.UID]*podRecord
	dirty   *loop.Queue[string] // those that something has happened to
}

func newPodRecords(workers *worker.Pool, aside *aside.List) *podRecords {
	return &podRecords{workers: workers, aside: aside, known: map[types.UID]*podRecord{}, dirty: loop.NewQueue[string]()}
}

// podRecord is what is known of a pod beyond what is stored.
type podRecord struct {
	key     string
	job     *jobRecord // the Job that knows of it; nil if there is none
	request *node.Pod
	issued  pod.Issued
	// moved says that its Job was paused or continued, or that its window opens or closes, so that its place is to be found anew.
	moved bool
	// renewal is when its tokens are to be looked at, see tend.TokenRenewal; 0: never.
	renewal uint32
}

// jobRecord is what is known of a Job.
type jobRecord struct {
	*job.Record
	key string
	// ahead puts the Job's waiting pods before others, see batch.PrioritizedAnnotation.
	ahead time.Time
	// creator is who has created the Job, if the queue is ordered by what each of those has used.
	creator string
	// preemptBy is what the Job says of its pods in core.PreemptByAnnotation; empty for nothing.
	preemptBy string
}

// get returns a pod that is known; nil if it is not.
func (c *podRecords) get(p *loop.Pass, uid types.UID) (string, *corev1.Pod, error) {
	rec, ok := c.known[uid]
	if !ok {
		return "", nil, nil
	}
	obj, ok, err := p.Pods.Get(rec.key)
	if err != nil || !ok || obj.UID != uid {
		return "", nil, err
	}
	obj.UID = rec.request.UID // the string that is kept anyway, see share
	return rec.key, obj, nil
}

// keyOf returns the key of a pod; empty if it is not known.
func (c *podRecords) keyOf(uid types.UID) string {
	if rec, ok := c.known[uid]; ok {
		return rec.key
	}
	return ""
}

// retry tries at once what has failed for a pod.
func (c *podRecords) retry(rec *podRecord) {
	rec.issued.Retry()
	c.dirty.Add(rec.key)
}

// do hands actions to the workers of a pod once the pass is durable.
func (c *podRecords) do(p *loop.Pass, obj *corev1.Pod, actions ...duty.Action) {
	if len(actions) > 0 {
		if rec := c.known[obj.UID]; rec != nil {
			obj.UID = rec.request.UID // the string that is kept anyway, see share
		}
		allocated := allotment.Of(obj)
		p.After(func() { c.workers.Do(allocated, actions) })
	}
}

// concernOfPods is how package loop calls the concern.
const concernOfPods = "pods"

// keysAside returns the keys of the pods that were set aside: their containers go on, and what becomes of them is found out
// when the pods are worked on again.
func (c *podRecords) keysAside() (keys []string) {
	for _, e := range c.aside.Entries() {
		if objects.ResourceOf(e.Key) == objects.Pods && c.aside.Has(concernOfPods, e.Key) {
			keys = append(keys, e.Key)
		}
	}
	return keys
}

// readAside returns the pods that were set aside.
func (c *podRecords) readAside(s *store.Snapshot) (pods []*corev1.Pod, err error) {
	for _, key := range c.keysAside() {
		p := &corev1.Pod{}
		if ok, err := objects.Read(s, key, p); err != nil {
			return nil, err
		} else if ok {
			pods = append(pods, p)
		}
	}
	return pods, nil
}

// resumed returns the pods that are known at start, or were set aside, one at a time: all of them may be more than memory
// holds.
func (c *podRecords) resumed(s *store.Store) iter.Seq2[*corev1.Pod, error] {
	read := func(key string) (p *corev1.Pod, err error) {
		err = s.View(func(s *store.Snapshot) error {
			found := &corev1.Pod{}
			ok, err := objects.Read(s, key, found)
			if ok && err == nil {
				p = found
			}
			return err
		})
		return p, err
	}
	return func(yield func(*corev1.Pod, error) bool) {
		for _, rec := range c.known {
			p, err := read(rec.key)
			if p != nil {
				rec.issued.Resume(p, time.Now())
				if _, displaced := core.DisplacedSince(p); displaced || rec.job != nil && rec.job.Paused() {
					pod.ToBePaused(p)
				}
			}
			if (p != nil || err != nil) && !yield(p, err) {
				return
			}
		}
		for _, key := range c.keysAside() {
			p, err := read(key)
			if p != nil && c.known[p.UID] != nil {
				continue
			}
			if (p != nil || err != nil) && !yield(p, err) {
				return
			}
		}
	}
}

// requestOf returns what admission needs of a pod of a Job, which may be nil.
func (q *queue) requestOf(p *corev1.Pod, of *jobRecord) *node.Pod {
	request := node.PodOf(allotment.Of(p))
	creator := ""
	if of != nil {
		creator = of.creator
	}
	request.SetAccount(q.fair.AccountOf(p.Namespace, creator))
	if of != nil {
		request.Ahead = node.Ahead(of.ahead)
		request.Within(of.ActiveDeadline())
	}
	request.Pausable = q.pausable(p.Namespace, of)
	return request
}
