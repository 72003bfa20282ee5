package diskuse

import (
	"cmp"
	"context"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	wire "github.com/jobd/jobd/api/diskuse"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/runtime/image"
	"github.com/jobd/jobd/store"
)

// known is what one measurement knows of stored objects, and what it has found of each Job.
type known struct {
	pods map[string]pod // by their UIDs
	// images and claims have who needs each now, by their full names and by the names that owners have.
	images, claims map[string]sets.Set[string]
	jobs           map[string]*wire.Job
}

// pod is what there is to know of one.
type pod struct {
	owner string
	ended bool
}

// podPart is what is read of pods, of which there may be very many.
var podPart = scheme.FieldsOf[corev1.Pod]("metadata.name", "metadata.namespace", "metadata.ownerReferences", "status.phase",
	"spec.containers", "spec.initContainers", "spec.ephemeralContainers", "spec.volumes")

// look reads the objects.
func (m *Meter) look(ctx context.Context) (*known, error) {
	k := &known{map[string]pod{}, map[string]sets.Set[string]{}, map[string]sets.Set[string]{}, map[string]*wire.Job{}}
	return k, m.Store.View(func(s *store.Snapshot) error {
		for kind, read := range map[string]func(o store.Object) error{
			objects.Pods: k.readPod, objects.Jobs: k.readJob, objects.CronJobs: k.readCronJob,
		} {
			var err error
			s.Range(kind+"/", "", func(o store.Object) bool {
				err = cmp.Or(ctx.Err(), read(o))
				return err == nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (k *known) readPod(o store.Object) error {
	p := &corev1.Pod{}
	if err := scheme.DecodePart(o.Value, podPart, p); err != nil {
		return err
	}
	one := pod{ownerOf(p), podspec.Ended(p)}
	k.pods[o.UID] = one
	if one.ended {
		return nil
	}
	k.uses(one.owner, &p.Spec)
	for _, v := range p.Spec.Volumes {
		switch claim := "persistentvolumeclaims/" + p.Namespace + "/"; {
		case v.PersistentVolumeClaim != nil:
			add(k.claims, claim+v.PersistentVolumeClaim.ClaimName, one.owner)
		case v.Ephemeral != nil:
			add(k.claims, claim+p.Name+"-"+v.Name, one.owner)
		}
	}
	return nil
}

func (k *known) readJob(o store.Object) error {
	j := &batchv1.Job{}
	if err := scheme.DecodePart(o.Value, objects.JobImages, j); err != nil {
		return err
	}
	if !objects.Finished(j) {
		k.uses("jobs/"+j.Namespace+"/"+j.Name, &j.Spec.Template.Spec)
	}
	return nil
}

func (k *known) readCronJob(o store.Object) error {
	c := &batchv1.CronJob{}
	if err := scheme.DecodePart(o.Value, objects.CronJobImages, c); err != nil {
		return err
	}
	k.uses("cronjobs/"+c.Namespace+"/"+c.Name, &c.Spec.JobTemplate.Spec.Template.Spec)
	return nil
}

// uses notes who needs the images of a pod.
func (k *known) uses(who string, spec *corev1.PodSpec) {
	for ref := range objects.Images(spec) {
		if name, err := image.Normalize(ref); err == nil {
			add(k.images, name, who)
		}
	}
}

func add(to map[string]sets.Set[string], what, who string) {
	if to[what] == nil {
		to[what] = sets.New[string]()
	}
	to[what].Insert(who)
}

// note adds what a Job has of a kind.
func (k *known) note(kind, owner string, bytes int64) {
	name, ok := strings.CutPrefix(owner, "jobs/")
	if !ok {
		return
	}
	j := k.jobs[name]
	if j == nil {
		j = &wire.Job{Name: name, Kinds: map[string]int64{}}
		k.jobs[name] = j
	}
	j.Bytes += bytes
	j.Kinds[kind] += bytes
}

// byJob returns the Jobs that have most, and how many have something.
func (k *known) byJob() ([]wire.Job, int) {
	all := make([]wire.Job, 0, len(k.jobs))
	for _, j := range k.jobs {
		all = append(all, *j)
	}
	slices.SortFunc(all, func(a, b wire.Job) int { return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Name, b.Name)) })
	return all[:min(len(all), wire.MaxOwners)], len(all)
}
