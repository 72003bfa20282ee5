package hold

import (
	batchv1 "k8s.io/api/batch/v1"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/picture"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// maxChain is how many Jobs of a chain are shown.
const maxChain = 50

// Chain returns the Jobs for which a Job waits, and behind each those for which that waits in turn: once each, and no more than can
// be shown.
func Chain(s *store.Snapshot, j *batchv1.Job) (chain []picture.Link, err error) {
	w := walk{store: s, namespace: j.Namespace, seen: map[string]bool{j.Name: true}}
	err = w.over(j, 0)
	return w.chain, err
}

type walk struct {
	store     *store.Snapshot
	namespace string
	seen      map[string]bool
	chain     []picture.Link
}

func (w *walk) over(j *batchv1.Job, depth int) error {
	if !batch.AwaitsJobs(j) {
		return nil
	}
	for _, n := range batch.After(j.Annotations) {
		if len(w.chain) >= maxChain {
			return nil
		}
		of := &batchv1.Job{}
		there, err := objects.Read(w.store, store.Key(objects.Jobs, w.namespace, n.Name), of)
		if err != nil {
			return err
		}
		o := OutcomeOf(of)
		if !there {
			if o, err = Past(w.store, w.namespace, n.Name, j.CreationTimestamp.Time); err != nil {
				return err
			}
			o.State = o.Result
		}
		w.chain = append(w.chain, picture.Link{
			Name: n.Name, For: j.Name, When: n.When, State: o.State, Met: Judge(n, o, j.CreationTimestamp.Time) == Met, Depth: depth,
		})
		if there && !w.seen[n.Name] {
			w.seen[n.Name] = true
			if err := w.over(of, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}
