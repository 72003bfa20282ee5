package hold

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/daemon/objects"
)

// Play is one concurrency group for those who play Jobs without a store: it decides as Holds does. It must not be used by several
// goroutines at a time.
type Play struct {
	of    *group
	waits map[types.UID]*member
}

// NewPlay returns a group in which nobody is.
func NewPlay() *Play { return &Play{newGroup(), map[types.UID]*member{}} }

// Note takes in a Job of the group as it now is, with the priority of its pods, and reports whether there may be something to decide.
func (p *Play) Note(j *batchv1.Job, c core.Concurrency, priority int32) (changed bool) {
	m := p.waits[j.UID]
	if h := p.of.holders[string(j.UID)]; h != nil {
		h.ending = batch.Ending(&j.Status) != nil || j.DeletionTimestamp != nil
		if !batch.Placed(j) && !batch.Unplaced(j) {
			delete(p.of.holders, string(j.UID))
			return true
		}
		return false
	}
	switch waits := batch.Unplaced(j); {
	case waits && m == nil:
		m = newMember(objects.Key(objects.Jobs, j), j, c)
		m.priority = priority
		p.waits[j.UID] = m
		p.of.enter(j.UID, m)
		return true
	case !waits && m != nil:
		p.leave(j.UID)
		return true
	}
	return false
}

// Placed reports whether a Job has a place.
func (p *Play) Placed(uid types.UID) bool { return p.of.holders[string(uid)] != nil }

// Gone takes in that a Job of the group is gone, and reports whether there may be something to decide.
func (p *Play) Gone(uid types.UID) bool {
	if p.of.holders[string(uid)] != nil {
		delete(p.of.holders, string(uid))
		return true
	}
	if p.waits[uid] != nil {
		p.leave(uid)
		return true
	}
	return false
}

// Line returns who has places and who waits.
func (p *Play) Line() Line { return p.of.line() }

func (p *Play) leave(uid types.UID) {
	p.of.leave(uid, p.waits[uid])
	delete(p.waits, uid)
}

// Next decides what is to be done next, at a time; false for nothing. It has happened in the group then.
func (p *Play) Next(now time.Time) (Move, bool) {
	move, ok := p.of.move()
	if !ok {
		return move, false
	}
	if m := p.waits[move.Job]; m != nil {
		if move.Starts {
			p.of.holders[string(move.Job)] = newHolder(m.key, m.Concurrency, now)
		}
		p.leave(move.Job)
	}
	return move, true
}
