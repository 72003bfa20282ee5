package answers

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/daemon/causes"
	"github.com/jobd/jobd/daemon/control"
	"github.com/jobd/jobd/daemon/fit"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/store"
)

// add adds what the control loop knows.
func (q *question) add(w *causes.World, f control.Facts) error {
	w.Rooms, w.Launchings, w.Standing, w.Node, w.Group = f.Rooms, f.Launchings, f.Standing, f.Node, f.Group
	w.Holders, w.Claims = map[types.UID]causes.Holder{}, map[types.UID]causes.ClaimWait{}
	return q.Store.View(func(s *store.Snapshot) error {
		for uid, wait := range f.Claims {
			told, err := q.claimWait(s, wait)
			if err != nil {
				return err
			}
			w.Claims[uid] = told
		}
		for uid, key := range f.Holders {
			namespace, name := objects.NameOf(key)
			p := &corev1.Pod{}
			if ok, err := objects.Read(s, key, p); err != nil {
				return err
			} else if !ok || p.UID != uid || !q.may("pods", namespace) {
				continue
			}
			ends, err := q.deadline(s, p)
			if err != nil {
				return err
			}
			w.Holders[uid] = causes.Holder{Object: why.Reference{Kind: "Pod", Namespace: namespace, Name: name}, Ends: ends}
		}
		return nil
	})
}

// claimWait adds to a claim that a pod waits for what is stored of its volume, and of the pod that uses it.
func (q *question) claimWait(s *store.Snapshot, wait control.ClaimWait) (causes.ClaimWait, error) {
	told := causes.ClaimWait{Claim: wait.Claim, Why: wait.Why}
	if wait.Volume != "" {
		pv := &corev1.PersistentVolume{}
		ok, err := objects.Read(s, store.Key(objects.Volumes, "", wait.Volume), pv)
		if err != nil {
			return told, err
		}
		if ok && pv.Spec.NodeAffinity != nil && pv.Spec.NodeAffinity.Required != nil {
			told.Volume, told.Hosts = wait.Volume, fit.Selects(pv.Spec.NodeAffinity.Required)
		}
	}
	if namespace, name := objects.NameOf(wait.User); wait.User != "" && q.may("pods", namespace) {
		told.User = &why.Reference{Kind: "Pod", Namespace: namespace, Name: name}
	}
	return told, nil
}

// deadline returns when a pod's own deadline, or that of its Job, ends it at the latest; zero for never.
func (q *question) deadline(s *store.Snapshot, p *corev1.Pod) (ends time.Time, err error) {
	note := func(at time.Time, ok bool) {
		if ok && (ends.IsZero() || at.Before(ends)) {
			ends = at
		}
	}
	note(pod.Deadline(p))
	j, err := controllerOf(s, p)
	if j != nil {
		note(batch.Deadline(j))
	}
	return ends, err
}
