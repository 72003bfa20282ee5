package loop

import (
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/aside"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/runtime/crash"
	"github.com/jobd/jobd/store"
)

// asideComponent is the source of events about what was set aside, and asideReason their reason.
const (
	asideComponent = "jobd"
	asideReason    = "SetAside"
)

// works says what the loop is at work on, and reports whether it may be.
func (l *Loop) works(concern, key string) bool {
	if l.Aside.Has(concern, key) {
		return false
	}
	l.work = work{concern, key}
	l.Watch.Step(concern, key)
	crash.Hang("pass", concern, key)
	return true
}

// Works says that the controller is at work on the object at a key, and reports whether it may be: otherwise the object was
// set aside, because the loop has hung on it.
func (p *Pass) Works(key string) bool {
	p.notice()
	p.loop.notes.turnTo(p.concern)
	return p.loop.works(p.concern, key)
}

// turnTo says which concern is at work next.
func (p *Pass) turnTo(concern string) {
	p.notice()
	p.loop.work = work{}
	p.concern = concern
	p.loop.notes.turnTo(concern)
	p.loop.Watch.Step(concern, "")
}

// unstored are keys of objects. It is safe for concurrent use.
type unstored struct {
	mu   sync.Mutex
	keys []string
}

func (u *unstored) add(key string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.keys = append(u.keys, key)
}

func (u *unstored) clear() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.keys = u.keys[:0]
}

// Unstored reports whether the present pass has taken in a change of an object that is lost if the pass is. It may be called
// from any goroutine, also while the loop hangs.
func (l *Loop) Unstored(key string) bool {
	l.unstored.mu.Lock()
	defer l.unstored.mu.Unlock()
	return slices.Contains(l.unstored.keys, key)
}

// storedObjects implements aside.Stored.
type storedObjects struct{ *store.Snapshot }

func (s storedObjects) UID(key string) (string, bool) {
	o, ok := s.Get(key)
	return o.UID, ok
}

func (s storedObjects) Controller(key, resource string) (aside.Object, error) {
	o, ok := s.Get(key)
	if !ok {
		return aside.Object{}, nil
	}
	ref, err := controllerOf(o)
	k := objects.Served()[resource]
	if err != nil || ref == nil || ref.Kind != k.Name || ref.APIVersion != k.GroupVersion.String() {
		return aside.Object{}, err
	}
	namespace, _ := objects.NameOf(key)
	at := store.Key(resource, namespace, ref.Name)
	if by, ok := s.Get(at); ok && by.UID == string(ref.UID) {
		return aside.Object{Key: at, UID: by.UID}, nil
	}
	return aside.Object{}, nil
}

func (s storedObjects) Controlled(by aside.Object, resource string) (controlled []aside.Object, err error) {
	namespace, _ := objects.NameOf(by.Key)
	s.Range(store.Key(resource, namespace, ""), "", func(o store.Object) bool {
		if !slices.Contains(o.Owners, by.UID) {
			return true
		}
		ref, failed := controllerOf(o)
		if err = failed; ref != nil && string(ref.UID) == by.UID {
			controlled = append(controlled, aside.Object{Key: o.Key, UID: o.UID})
		}
		return err == nil
	})
	return controlled, err
}

// controllerOf returns the reference to what controls a stored object of a kind that is served; nil if nothing does.
func controllerOf(o store.Object) (*metav1.OwnerReference, error) {
	obj := objects.Served()[objects.ResourceOf(o.Key)].New()
	if err := objects.Decode(o, obj); err != nil {
		return nil, err
	}
	return metav1.GetControllerOf(obj.(objects.Object)), nil
}

// beginAside finds out what is set aside, and has it told.
func (l *Loop) beginAside(now time.Time) error {
	l.Watch.Begin("", "")
	defer l.Watch.End()
	l.work = work{} // what fails here is not the fault of what it was last at work on
	return l.Store.View(func(s *store.Snapshot) error {
		entries, err := l.Aside.Begin(storedObjects{s}, now)
		if err != nil {
			l.Logger.Error("cannot note what was set aside", "error", err)
		}
		for _, e := range entries {
			if e.Hangs == 0 {
				continue // its owner is among them
			}
			if !e.Told {
				l.more = true // the next pass tells
			}
			l.Logger.Warn("an object is left alone, since the control loop hung on it", "object", e.Key, "concern", e.Concern,
				"hangs", e.Hangs, "at", e.At.Format(time.RFC3339))
		}
		return nil
	})
}

// foldAside takes in a change of an object that may have been set aside, before the controllers do.
func (p *Pass) foldAside(c Change) error {
	change := aside.Change{Key: c.Object.Key, UID: c.Object.UID, Version: c.Object.Version, Deleted: c.Deleted}
	if !p.loop.Aside.Knows(change.Key) {
		return nil
	}
	if k := objects.Served()[c.Resource]; k != nil && !c.Deleted {
		obj := k.New()
		if err := objects.Decode(c.Object, obj); err != nil {
			return err
		}
		change.Deleting = obj.(objects.Object).GetDeletionTimestamp() != nil
	}
	if err := p.loop.Aside.Arrived(change); err != nil {
		p.loop.Logger.Error("cannot note what was set aside", "error", err)
	}
	p.aside = append(p.aside, change)
	return nil
}

// release takes in changes that are durable of objects that were set aside, and reports whether some are no longer.
func (l *Loop) release(changes []aside.Change) (any bool) {
	released, err := l.Aside.Changed(changes)
	if err != nil {
		l.Logger.Error("cannot note what is no longer set aside", "error", err)
	}
	for _, key := range released {
		l.Logger.Info("an object that was set aside is worked on again, since it was changed", "object", key)
	}
	return len(released) > 0
}

// tellAside writes events about what was set aside.
func (p *Pass) tellAside() error {
	var told []aside.Entry
	for _, e := range p.loop.Aside.Entries() {
		if e.Told {
			continue
		}
		k := objects.Served()[objects.ResourceOf(e.Key)]
		o, ok := p.tx.Get(e.Key)
		if k == nil || !ok {
			continue
		}
		namespace, name := objects.NameOf(e.Key)
		about := corev1.ObjectReference{Namespace: namespace, Name: name, UID: types.UID(o.UID)}
		about.APIVersion, about.Kind = k.GroupVersion.String(), k.Name
		if err := p.Event(about, asideComponent, corev1.EventTypeWarning, asideReason, e.Message()); err != nil {
			return fmt.Errorf("%s: %w", e.Key, err)
		}
		told = append(told, e)
	}
	if len(told) > 0 {
		p.After(func() {
			if err := p.loop.Aside.Told(told); err != nil {
				p.loop.Logger.Error("cannot note what was set aside", "error", err)
			}
		})
	}
	return nil
}
