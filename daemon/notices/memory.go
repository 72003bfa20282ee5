package notices

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/notify"
	"github.com/jobd/jobd/store"
)

// bounded returns what is to be remembered under a name: nothing, which is told, if that is new and there is no room for it.
func (t *Teller) bounded(p *loop.Pass, about corev1.ObjectReference, name string, was, is notify.Memory) (notify.Memory, error) {
	if !was.Empty() || is.Empty() || t.remember(about.Namespace, name) {
		return is, nil
	}
	return notify.Memory{}, p.Event(about, events.ControllerOf(about.Kind), corev1.EventTypeWarning, NotDelivered, fmt.Sprintf(
		"nobody will be told when a %s of this name has recovered: %d others of this namespace have failed, of which that is remembered",
		about.Kind, maxRemembered,
	))
}

// remember takes in that something is remembered of Jobs of a name, and reports whether there is room for that.
func (t *Teller) remember(namespace, name string) bool {
	names := t.remembered[namespace]
	if names == nil {
		names = map[string]bool{}
		t.remembered[namespace] = names
	}
	if !names[name] && len(names) >= maxRemembered {
		return false
	}
	names[name] = true
	return true
}

// forgetAfter is for how long it is remembered that the last Job of a name has failed, if no other comes.
const forgetAfter = 30 * 24 * 60 * 60 // seconds

// maxRemembered is of how many names of Jobs of a namespace something is remembered.
const maxRemembered = 1000

// putMemory stores what is to be remembered, if that is not what was.
func putMemory(p *loop.Pass, namespace, name string, owner types.UID, was, is notify.Memory) error {
	value, err := json.Marshal(is)
	if err != nil {
		return err
	}
	before, err := json.Marshal(was)
	if err != nil || string(value) == string(before) {
		return err
	}
	key := notify.MemoryKey(namespace, name)
	if is.Empty() {
		p.Delete(key)
		return nil
	}
	o := store.Object{Key: key, UID: string(owner), Value: value}
	if owner == "" && is.Every == 0 {
		o.Expires = p.Now.Unix() + forgetAfter
	}
	p.PutStored(o)
	return nil
}
