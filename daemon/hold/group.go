package hold

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/internal/heap"
	"github.com/jobd/jobd/store"
)

// member is a Job of a concurrency group that waits for a place.
type member struct {
	core.Concurrency
	key      string
	priority int32
	ahead    time.Time // see batch.PrioritizedAnnotation
	created  time.Time
	at       int // in its queue
}

// Before implements heap.Element: those of a higher priority come first, then those that were put first, then the older ones. Those that
// make their places themselves are older ones first: these are replaced by later ones.
func (m *member) Before(o *member) bool {
	if m.Policy != core.ReplaceConcurrent {
		if c := cmp.Or(cmp.Compare(o.priority, m.priority), o.ahead.Compare(m.ahead)); c != 0 {
			return c < 0
		}
	}
	return cmp.Or(m.created.Compare(o.created), cmp.Compare(m.key, o.key)) < 0
}

// Moved implements heap.Element.
func (m *member) Moved(to int) { m.at = to }

// holder is a place in a group, as it is stored.
type holder struct {
	Namespace string `json:"namespace"`
	Group     string `json:"group"`
	// Job is the name of the Job, Limit what it says of the group, and Since when it got the place, in nanoseconds since 1970.
	Job   string `json:"job"`
	Limit int    `json:"limit"`
	Since int64  `json:"since"`

	// ending: it is decided how the Job ends, and the place will be free without anybody's doing.
	ending bool
	// alone: its object is gone, and the place is that of its pods, by their keys.
	alone bool
	pods  map[string]struct{}
}

// limitOf returns how many Jobs of a group may run at a time, for one that is to start beside others.
func limitOf(m *member, holders []*holder) int {
	limit := m.Limit
	for _, h := range holders {
		limit = min(limit, h.Limit)
	}
	return limit
}

// step is what is to be done next in a group.
type step uint8

const (
	stay    step = iota
	admit        // the first that waits starts
	forbid       // one that forbids to wait ends
	replace      // a holder ends, for one that replaces it
	outdo        // the oldest that waits, and replaces others, is replaced by a later one itself
)

// next decides what is to be done next in a group: with the first that waits, how many wait and replace others, and whether one may not
// wait. Those that replace others come before the rest, who are not to have the places that they make.
func next(first *member, holders []*holder, replacers int, forbids bool) step {
	if first == nil {
		return stay
	}
	limit := limitOf(first, holders)
	ending := 0
	for _, h := range holders {
		if h.ending || h.alone {
			ending++
		}
	}
	switch {
	case replacers > limit:
		return outdo
	case len(holders) < limit:
		return admit
	case forbids:
		return forbid
	case ending < len(holders) && ending < len(holders)-limit+replacers && replacers > 0:
		return replace
	}
	return stay
}

// oldest returns the holder that is replaced: of those that go on the one that has had its place for longest.
func oldest(holders map[string]*holder) (uid string, of *holder) {
	for id, h := range holders {
		if h.ending || h.alone {
			continue
		}
		if of == nil || cmp.Or(cmp.Compare(h.Since, of.Since), cmp.Compare(id, uid)) < 0 {
			uid, of = id, h
		}
	}
	return uid, of
}

// group is a group in which somebody waits, or has a place.
type group struct {
	queue, replacers heap.Heap[*member]
	forbids          map[types.UID]*member // those in queue that do not wait
	uids             map[*member]types.UID
	holders          map[string]*holder
}

func newGroup() *group {
	return &group{forbids: map[types.UID]*member{}, uids: map[*member]types.UID{}, holders: map[string]*holder{}}
}

// enter lets a Job wait for a place.
func (of *group) enter(uid types.UID, m *member) {
	of.uids[m] = uid
	of.heapOf(m).Push(m)
	if m.Policy == core.ForbidConcurrent {
		of.forbids[uid] = m
	}
}

// leave takes in that a Job waits no longer.
func (of *group) leave(uid types.UID, m *member) {
	delete(of.uids, m)
	delete(of.forbids, uid)
	of.heapOf(m).Remove(m.at)
}

func (of *group) heapOf(m *member) *heap.Heap[*member] {
	if m.Policy == core.ReplaceConcurrent {
		return &of.replacers
	}
	return &of.queue
}

// first returns who is the next to start; nil if nobody waits.
func (of *group) first() *member {
	for _, h := range []heap.Heap[*member]{of.replacers, of.queue} {
		if len(h) > 0 {
			return h[0]
		}
	}
	return nil
}

func (of *group) list() []*holder { return slices.Collect(maps.Values(of.holders)) }

// Move is what a group decides: a Job gets a place, or else ends as failed.
type Move struct {
	Job             types.UID
	Starts          bool
	Reason, Message string

	key string // of the Job
}

// move returns what is to be done next in a group; false for nothing.
func (of *group) move() (Move, bool) {
	first := of.first()
	switch next(first, of.list(), len(of.replacers), len(of.forbids) > 0) {
	case admit:
		return Move{Job: of.uids[first], key: first.key, Starts: true}, true
	case forbid:
		uid := slices.Min(slices.Collect(maps.Keys(of.forbids))) // one of them
		m := of.forbids[uid]
		return Move{Job: uid, key: m.key, Reason: batch.ReasonConcurrencyForbidden, Message: fmt.Sprintf(
			"The concurrency group %s has no place: %s", m.Group, taken(len(of.holders), limitOf(m, of.list())))}, true
	case outdo:
		m := of.replacers[0]
		return Move{Job: of.uids[m], key: m.key, Reason: batch.ReasonConcurrencyReplaced, Message: fmt.Sprintf(
			"Replaced before it began by a later Job of the concurrency group %s", m.Group)}, true
	case replace:
		id, victim := oldest(of.holders)
		if victim == nil {
			return Move{}, false
		}
		victim.ending = true
		_, by := objects.NameOf(of.replacers[0].key)
		return Move{
			Job: types.UID(id), key: store.Key(objects.Jobs, victim.Namespace, victim.Job), Reason: batch.ReasonConcurrencyReplaced,
			Message: fmt.Sprintf("Replaced by jobs/%s in the concurrency group %s", by, victim.Group),
		}, true
	}
	return Move{}, false
}
