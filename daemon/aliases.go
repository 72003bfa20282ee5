package daemon

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/kind"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// Short names of daemon/objects, until everything that uses them has moved to a room of its own.
const (
	configMaps      = objects.ConfigMaps
	cronJobs        = objects.CronJobs
	eventsV1        = objects.Events
	jobs            = objects.Jobs
	memories        = objects.Memories
	namespaces      = objects.Namespaces
	nodes           = objects.Nodes
	podGroups       = objects.PodGroups
	pods            = objects.Pods
	secrets         = objects.Secrets
	serviceAccounts = objects.ServiceAccounts
	workloads       = objects.Workloads
)

var (
	jobEnd     = objects.JobEnd
	podEnd     = objects.PodEnd
	podOnNode  = objects.PodOnNode
	podImages  = objects.PodImages
	finalizers = objects.Finalizers
)

type object = objects.Object

func served() map[string]*kind.Kind                         { return objects.Served() }
func keyOf(resource string, obj metav1.Object) string       { return objects.Key(resource, obj) }
func decode(stored store.Object, into runtime.Object) error { return objects.Decode(stored, into) }
func resourceOf(key string) string                          { return objects.ResourceOf(key) }
func finished(j *batchv1.Job) bool                          { return objects.Finished(j) }
func controllingJob(p *corev1.Pod) types.UID                { return objects.ControllingJob(p) }
func runs(p *corev1.Pod) bool                               { return objects.Runs(p) }
func done(p *corev1.Pod) bool                               { return objects.Done(p) }
func podReference(p *corev1.Pod) corev1.ObjectReference     { return objects.PodReference(p) }

// each decodes all objects of a resource.
func each[T object](s *store.Snapshot, resource string, empty func() T, fn func(key string, obj T) error) (err error) {
	s.Range(resource+"/", "", func(o store.Object) bool {
		obj := empty()
		if err = decode(o, obj); err == nil {
			err = fn(o.Key, obj)
		}
		return err == nil
	})
	return err
}
