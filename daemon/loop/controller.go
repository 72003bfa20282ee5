package loop

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/store"
)

// Controller is one concern of the loop, with the records that it needs. The loop alone calls its methods, one at a
// time. Base implements the methods that a controller does not need.
type Controller interface {
	// Rebuild reads its records from the store: at start, and when a pass was lost after decisions had been folded in.
	// The controller is new then, and those behind it in the list have been rebuilt.
	Rebuild(s *store.Snapshot, now time.Time) error
	// Fold takes in what others have written, that is, the API. What a pass itself writes, controllers fold in as it
	// goes.
	Fold(p *Pass, c Change) error
	// Due is called when a time has come that the controller has set (Timers.Set).
	Due(p *Pass, key string) error
	// Settle takes one decision, if there is one to take, and reports whether there was.
	Settle(p *Pass) (bool, error)
	// Dirty reports whether Settle has something to look at.
	Dirty() bool
}

// Base is a controller that does nothing.
type Base struct{}

// Rebuild implements Controller.
func (Base) Rebuild(*store.Snapshot, time.Time) error { return nil }

// Fold implements Controller.
func (Base) Fold(*Pass, Change) error { return nil }

// Due implements Controller.
func (Base) Due(*Pass, string) error { return nil }

// Settle implements Controller.
func (Base) Settle(*Pass) (bool, error) { return false, nil }

// Dirty implements Controller.
func (Base) Dirty() bool { return false }

// Change is something that others have written to the store.
type Change struct {
	store.Change
	Resource string // of the object's key
	// namespace decodes the object of one that was not deleted; nil for other objects.
	namespace func() (*corev1.Namespace, error)
}

// Finisher is a controller that acts at the end of each pass, when everything has been settled that fits into the pass.
type Finisher interface{ Finish(p *Pass) error }

// GoneFollower is a controller that follows the removal of objects of any kind, whoever removes them.
type GoneFollower interface{ Gone(p *Pass, o store.Object) }

// AsideFollower is a controller that lets objects go that were set aside (package aside). Of other changes of them it is not
// told, nor of what is due for them.
type AsideFollower interface {
	// ChangedAside is called instead of Fold for an object that was set aside, unless it is gone.
	ChangedAside(p *Pass, c Change) error
}

// QuotaFollower is a controller that creates objects which ResourceQuotas may refuse. QuotaFreed is called when those of a
// namespace may allow more than before.
type QuotaFollower interface {
	QuotaFreed(p *Pass, namespace string)
}

// Observer is a controller that takes in what the workers of pods observe (Pass.TakeObserved).
type Observer interface {
	// Observed is called when there are observations of a pod.
	Observed(pod types.UID)
	// Observes reports whether observations of a pod are of interest.
	Observes(pod types.UID) bool
	// Awaits reports whether they will be once the pod, which was set aside, is worked on again: until then they are kept.
	Awaits(pod types.UID) bool
}

// concerns are the controllers in the order in which they decide, and those of them that follow more than changes.
type concerns struct {
	all       []Controller
	names     []string              // of all
	nameOf    map[Controller]string // the same
	finishers []Finisher
	followers []GoneFollower
	observers []Observer

	quotaFollowers []QuotaFollower
}

func newConcerns(all []Controller) *concerns {
	sorted := &concerns{all: all, nameOf: make(map[Controller]string, len(all))}
	for _, c := range all {
		sorted.names = append(sorted.names, concernOf(c))
		sorted.nameOf[c] = concernOf(c)
		if f, ok := c.(Finisher); ok {
			sorted.finishers = append(sorted.finishers, f)
		}
		if f, ok := c.(GoneFollower); ok {
			sorted.followers = append(sorted.followers, f)
		}
		if o, ok := c.(Observer); ok {
			sorted.observers = append(sorted.observers, o)
		}
		if f, ok := c.(QuotaFollower); ok {
			sorted.quotaFollowers = append(sorted.quotaFollowers, f)
		}
	}
	return sorted
}

// concernOf returns the name of a controller's type, by which a concern is called.
func concernOf(c Controller) string {
	name := fmt.Sprintf("%T", c)
	name = name[strings.LastIndexByte(name, '.')+1:]
	return strings.ToLower(name[:1]) + name[1:]
}

// dirty reports whether there is something to be looked at now.
func (c *concerns) dirty() bool { return slices.ContainsFunc(c.all, Controller.Dirty) }
