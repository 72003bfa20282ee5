package daemon

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/store"
)

// walk visits the objects of an owner in the order of their keys, as many as one pass should take on, and goes on from
// there when it is called again. It tells whether it has come to the end.
func (p *pass) walk(owner types.UID, visit func(key string) error) (end bool, err error) {
	visited := 0
	end = true
	p.tx.Owned(string(owner), p.records.walks[owner], func(key string) bool {
		if visited++; visited > budget/2 || p.spent() {
			p.records.walks[owner], end = key, false
			return false
		}
		err = visit(key)
		return err == nil
	})
	if end {
		delete(p.records.walks, owner)
	}
	return end, err
}

// tellWaiting looks again at an owner whose deletion waits for its dependents, since one of them is gone or has changed.
func (p *pass) tellWaiting(owner types.UID) {
	if key, ok := p.records.waiting[owner]; ok {
		p.records.deleting.add(key)
	}
}

// foldOwners takes in what somebody has written, for what it owns and for what owns it.
func (p *pass) foldOwners(c store.Change) error {
	if c.Previous == nil || !slices.Equal(c.Previous.Owners, c.Object.Owners) {
		if len(c.Object.Owners) > 0 {
			p.records.abandoned.add(c.Object.Key)
		}
	}
	if c.Previous != nil { // it may have been let go
		p.tellOwners(c.Previous)
	}
	switch resource := resourceOf(c.Object.Key); resource {
	case namespaces, eventsV1, jobs, cronJobs: // the first has contents instead, the last two are looked at anyway
		return nil
	default:
		if served()[resource] == nil {
			return nil
		}
	}
	obj, ok, err := p.any(c.Object.Key)
	if err == nil && ok {
		p.records.noteDeletion(c.Object.Key, obj)
	}
	return err
}

// objectGone follows the end of any object, for what it owned and for what owned it.
func (p *pass) objectGone(o store.Object) {
	if resourceOf(o.Key) == memories {
		return // its UID is that of its Job, which may well be there
	}
	p.tellOwners(&o)
	p.ownerGone(types.UID(o.UID))
}

func (p *pass) tellOwners(o *store.Object) {
	for _, owner := range o.Owners {
		p.tellWaiting(types.UID(owner))
	}
}

// ownerGone collects what an object has left behind.
func (p *pass) ownerGone(uid types.UID) {
	delete(p.records.waiting, uid)
	delete(p.records.walks, uid)
	if p.owns(uid) {
		p.records.collect.add(uid)
	}
}
