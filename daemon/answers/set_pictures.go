package answers

import (
	"encoding/json"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/picture"
	"github.com/jobd/jobd/store"
)

// sketch is one JobSet that somebody looks at.
type sketch struct {
	mu    sync.Mutex
	jobs  map[string]sketchedJob // by key, as they were when it was drawn last
	text  []byte
	drawn time.Time
	took  time.Duration
}

type sketchedJob struct {
	version uint64
	ours    bool // its controller is the JobSet
	picture.JobOfSet
}

// jobInSet says how a Job is, and which JobSet it is of.
var jobInSet = scheme.FieldsOf[batchv1.Job](
	"metadata.name", "metadata.labels", "metadata.annotations", "metadata.ownerReferences", "metadata.deletionTimestamp", "spec.suspend", "spec.managedBy",
	"status.conditions", "status.ready",
)

// SetPicture implements server.Pictures.
func (p *Pictures) SetPicture(js *jobsetv1.JobSet) ([]byte, error) {
	k := p.sketches.get(js.UID, func() *sketch { return &sketch{} })
	k.mu.Lock()
	defer k.mu.Unlock()
	if stillFresh(k.drawn, k.took) {
		return k.text, nil
	}
	begin := time.Now()
	if err := p.Store.View(func(s *store.Snapshot) error {
		// What the JobSet says is to be of the same moment as what its Jobs do.
		now := &jobsetv1.JobSet{}
		if ok, err := objects.Read(s, store.Key(objects.JobSets, js.Namespace, js.Name), now); err != nil {
			return err
		} else if ok && now.UID == js.UID {
			js = now
		}
		return k.look(s, js)
	}); err != nil {
		return nil, err
	}
	jobs := make([]picture.JobOfSet, 0, len(k.jobs))
	for _, j := range k.jobs {
		if j.ours {
			jobs = append(jobs, j.JobOfSet)
		}
	}
	text, err := json.Marshal(picture.DrawSet(js, jobs, begin))
	if err != nil {
		return nil, err
	}
	k.text, k.drawn = append(text, '\n'), time.Now()
	k.took = k.drawn.Sub(begin)
	p.sketches.grown(js.UID, len(k.jobs))
	return k.text, nil
}

// look reads the Jobs of a JobSet that have changed.
func (k *sketch) look(s *store.Snapshot, js *jobsetv1.JobSet) (err error) {
	seen := make(map[string]sketchedJob, len(k.jobs))
	s.Owned(string(js.UID), store.Key(objects.Jobs, js.Namespace, ""), "", func(key string) bool {
		o, ok := s.Get(key)
		if !ok {
			return true
		}
		if known, ok := k.jobs[key]; ok && known.version == o.Version {
			seen[key] = known
			return true
		}
		j := &batchv1.Job{}
		if err = scheme.DecodePart(o.Value, jobInSet, j); err != nil {
			return false
		}
		_, owner := batch.SetOf(j)
		seen[key] = sketchedJob{version: o.Version, ours: owner == js.UID, JobOfSet: picture.JobOfSet{
			Group: j.Labels[jobsetv1.ReplicatedJobNameKey], Name: j.Name, Attempt: j.Labels[jobset.RestartAttemptKey], State: batch.State(j),
		}}
		return true
	})
	k.jobs = seen
	return err
}
