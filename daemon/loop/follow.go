package loop

import (
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// PodFollower is a controller that follows pods through their life on the node, whoever writes the changes. NoPods implements
// what a follower does not need.
type PodFollower interface {
	// PodKnown is called when a pod is seen for the first time.
	PodKnown(key string, p *corev1.Pod)
	// PodEdited is called when a client has changed a pod.
	PodEdited(key string, p *corev1.Pod)
	// PodBound is called when a pod was bound to the node, or was found there at start.
	PodBound(key string, p *corev1.Pod, now time.Time)
	// PodRecovered is called for a pod that is known at start: something may have happened while the daemon was not
	// running.
	PodRecovered(key string, p *corev1.Pod)
	// PodForgotten is called when nothing is left to be done for a pod.
	PodForgotten(key string)
}

// NoPods is a PodFollower that does nothing.
type NoPods struct{}

// PodKnown implements PodFollower.
func (NoPods) PodKnown(string, *corev1.Pod) {}

// PodEdited implements PodFollower.
func (NoPods) PodEdited(string, *corev1.Pod) {}

// PodBound implements PodFollower.
func (NoPods) PodBound(string, *corev1.Pod, time.Time) {}

// PodRecovered implements PodFollower.
func (NoPods) PodRecovered(string, *corev1.Pod) {}

// PodForgotten implements PodFollower.
func (NoPods) PodForgotten(string) {}

// JobFollower is a controller that follows Jobs, whoever writes the changes. NoJobs implements what a follower does not need.
type JobFollower interface {
	// JobRecovered is called at start for a Job that is there. If it has finished and has no owner, no more of it is decoded
	// than what tells its end (objects.JobEnd).
	JobRecovered(key string, j *batchv1.Job)
	// JobChanged is called when there is a Job, or it has changed.
	JobChanged(p *Pass, key string, j *batchv1.Job) error
	// JobSetAside is called instead for a Job that was set aside (package aside).
	JobSetAside(j *batchv1.Job)
	// JobGone is called when the object of a Job is gone.
	JobGone(p *Pass, key string, j *batchv1.Job)
}

// NoJobs is a JobFollower that does nothing.
type NoJobs struct{}

// JobRecovered implements JobFollower.
func (NoJobs) JobRecovered(string, *batchv1.Job) {}

// JobChanged implements JobFollower.
func (NoJobs) JobChanged(*Pass, string, *batchv1.Job) error { return nil }

// JobSetAside implements JobFollower.
func (NoJobs) JobSetAside(*batchv1.Job) {}

// JobGone implements JobFollower.
func (NoJobs) JobGone(*Pass, string, *batchv1.Job) {}

// JobSetFollower is a controller that follows JobSets, whoever writes the changes. It must not change them.
type JobSetFollower interface {
	// JobSetRecovered is called at start for a JobSet that is there.
	JobSetRecovered(key string, js *jobsetv1.JobSet)
	// JobSetChanged is called when there is a JobSet, or it may have changed.
	JobSetChanged(key string, js *jobsetv1.JobSet)
	// JobSetGone is called when the object of a JobSet is gone.
	JobSetGone(p *Pass, key string, js *jobsetv1.JobSet)
}

// NamespaceFollower is a controller that follows namespaces, all of which it is told of, before it reads its records at start. It must
// not change the object, which is decoded once for all of them.
type NamespaceFollower interface {
	// NamespaceKnown is called for each namespace that is there at start.
	NamespaceKnown(ns *corev1.Namespace)
	// NamespaceChanged is called when a client has created a namespace, or has changed it.
	NamespaceChanged(p *Pass, ns *corev1.Namespace) error
	// NamespaceGone is called when a namespace is gone, whoever has removed it.
	NamespaceGone(p *Pass, name string) error
}

// decoder returns a function that decodes a stored namespace when it is called first.
func decoder(o store.Object) func() (*corev1.Namespace, error) {
	return sync.OnceValues(func() (*corev1.Namespace, error) {
		ns := &corev1.Namespace{}
		err := objects.Decode(o, ns)
		return ns, err
	})
}

// knowNamespaces tells those that follow namespaces of each that is there.
func (l *Loop) knowNamespaces(s *store.Snapshot, all []Controller) (err error) {
	s.Range(objects.Namespaces+"/", "", func(o store.Object) bool {
		decoded := decoder(o)
		for _, c := range all {
			f, ok := c.(NamespaceFollower)
			if !ok || !l.works(concernOf(c), o.Key) {
				continue
			}
			var ns *corev1.Namespace
			if ns, err = decoded(); err != nil {
				return false
			}
			f.NamespaceKnown(ns)
		}
		return true
	})
	return err
}

// Followers are the controllers that follow pods, Jobs and JobSets, in the order of all controllers. They are found by their methods
// once all are made, so that none of them has to be known to the controllers of pods and Jobs.
type Followers struct {
	pods []PodFollower
	jobs []JobFollower
	sets []JobSetFollower
}

// Pods returns those that follow pods.
func (f *Followers) Pods() []PodFollower { return f.pods }

// Jobs returns those that follow Jobs.
func (f *Followers) Jobs() []JobFollower { return f.jobs }

// JobSets returns those that follow JobSets.
func (f *Followers) JobSets() []JobSetFollower { return f.sets }

func (f *Followers) find(all []Controller) {
	for _, c := range all {
		if p, ok := c.(PodFollower); ok {
			f.pods = append(f.pods, p)
		}
		if j, ok := c.(JobFollower); ok {
			f.jobs = append(f.jobs, j)
		}
		if s, ok := c.(JobSetFollower); ok {
			f.sets = append(f.sets, s)
		}
	}
}
