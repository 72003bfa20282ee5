package hold

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/api/picture"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// maxChain is how many Jobs and JobSets of a chain are shown.
const maxChain = 50

// Chain returns the Jobs and JobSets for which a Job waits, and behind each those for which that waits in turn: once each, and no more than
// can be shown.
func Chain(s *store.Snapshot, j *batchv1.Job) (chain []picture.Link, err error) {
	of := linkOf(j)
	w := walk{store: s, namespace: j.Namespace, seen: map[string]bool{of.Ref(): true}}
	err = w.over(of, 0)
	return w.chain, err
}

// link is a Job or a JobSet of a chain.
type link struct {
	batch.Need // that it is for others
	needs      []batch.Need
	created    time.Time
	outcome    Outcome
}

func linkOf(j *batchv1.Job) link {
	l := link{Need: batch.Need{Name: j.Name}, created: j.CreationTimestamp.Time, outcome: OutcomeOf(j)}
	if batch.AwaitsJobs(j) {
		l.needs = batch.After(j.Annotations)
	}
	return l
}

func linkOfSet(js *jobsetv1.JobSet) link {
	l := link{Need: batch.Need{Name: js.Name, Set: true}, created: js.CreationTimestamp.Time, outcome: OutcomeOfSet(js)}
	if jobset.Awaits(js) {
		l.needs = batch.After(js.Annotations)
	}
	return l
}

type walk struct {
	store     *store.Snapshot
	namespace string
	seen      map[string]bool
	chain     []picture.Link
}

// read reads what is needed; false if there is none.
func (w *walk) read(n batch.Need) (of link, ok bool, err error) {
	key := keyOf(w.namespace, n)
	if n.Set {
		js := &jobsetv1.JobSet{}
		ok, err = objects.Read(w.store, key, js)
		return linkOfSet(js), ok, err
	}
	j := &batchv1.Job{}
	ok, err = objects.Read(w.store, key, j)
	return linkOf(j), ok, err
}

func (w *walk) over(l link, depth int) error {
	for _, n := range l.needs {
		if len(w.chain) >= maxChain {
			return nil
		}
		of, there, err := w.read(n)
		if err != nil {
			return err
		}
		if !there {
			if of.outcome, err = Past(w.store, w.namespace, n, l.created); err != nil {
				return err
			}
			of.outcome.State = of.outcome.Result
		}
		w.chain = append(w.chain, picture.Link{
			Name: n.Ref(), For: l.Ref(), When: n.When, State: of.outcome.State, Met: Judge(n, of.outcome, l.created) == Met, Depth: depth,
		})
		if there && !w.seen[n.Ref()] {
			w.seen[n.Ref()] = true
			if err := w.over(of, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}
