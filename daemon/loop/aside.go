package loop

import (
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
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
	l.Watch.Step(concern, key)
	crash.Hang("pass", concern, key)
	return true
}

// Works says that the controller is at work on the object at a key, and reports whether it may be: otherwise the object was
// set aside, because the loop has hung on it.
func (p *Pass) Works(key string) bool { return p.loop.works(p.concern, key) }

// turnTo says which concern is at work next.
func (p *Pass) turnTo(concern string) {
	p.concern = concern
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

// storedUIDs implements aside.Stored.
type storedUIDs struct{ *store.Snapshot }

func (s storedUIDs) UID(key string) (string, bool) {
	o, ok := s.Get(key)
	return o.UID, ok
}

// beginAside finds out what is set aside, and has it told.
func (l *Loop) beginAside(now time.Time) error {
	return l.Store.View(func(s *store.Snapshot) error {
		entries, err := l.Aside.Begin(storedUIDs{s}, now)
		if err != nil {
			l.Logger.Error("cannot note what was set aside", "error", err)
		}
		for _, e := range entries {
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
	for _, c := range changes {
		released, err := l.Aside.Changed(c)
		if err != nil {
			l.Logger.Error("cannot note what is no longer set aside", "error", err)
		}
		if released {
			l.Logger.Info("an object that was set aside is worked on again, since it was changed", "object", c.Key)
			any = true
		}
	}
	return any
}

// tellAside writes events about what was set aside.
func (p *Pass) tellAside() error {
	var told []aside.Entry
	for _, e := range p.loop.Aside.Entries() {
		k := objects.Served()[objects.ResourceOf(e.Key)]
		o, ok := p.tx.Get(e.Key)
		if e.Told || k == nil || !ok {
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
