// Package volumes is the concern of PersistentVolumeClaims and PersistentVolumes: it carries out in the control loop what the
// pure package daemon/claim decides.
//
// Changes of claims, volumes, classes and pods come in, and from daemon/provision what has become of a volume. What goes out
// are the objects that it writes in the loop's passes, tasks for daemon/provision once the pass is durable, and which pods
// wait for their claims (Uses).
package volumes

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/daemon/claim"
	"github.com/jobd/jobd/daemon/door"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/provision"
	"github.com/jobd/jobd/internal/multimap"
	"github.com/jobd/jobd/store"
)

// Claims is the controller of PersistentVolumeClaims and PersistentVolumes. It binds them to each other, has volumes created,
// expanded and deleted, and lets pods go on that waited for their claims. What becomes of a claim is in bind.go, of a volume in
// volume.go, and of the pods that use claims in pod.go.
//
// A volume that is to be created is noted in the store before, and its PersistentVolume is removed only after its data:
// so whatever is on the disk is also in the store, and a start goes on with what the last run has left undone.
type Claims struct {
	loop.Base
	*Uses
	timers       *loop.Timers
	worker       *provision.Worker
	nodeName     string
	unknownWaits bool
	doors        *door.Keeper
	pods         Pods

	classes map[string]*storagev1.StorageClass
	labels  map[string]string // of the node
	// free are the volumes that claims may be bound to, classOf the classes of those that jobd has not created; both by name.
	free    map[string]*corev1.PersistentVolume
	classOf map[string]string
	world   *claim.World // of all these; nil when it is to be made anew

	unbound map[string]struct{}  // claims
	said    map[string]string    // what was last said of a claim, volume or pod, by its key
	made    map[string]types.UID // the pods for which claims are known to have been made, by the keys of those

	creating    map[string]*creation         // by the name of the volume
	creatingFor multimap.Map[string, string] // their names, by the key of the claim
	failures    failures                     // by the name of the volume
	refusals    failures                     // of claims that a pod should have, by the key of the pod

	dirtyVolumes *loop.Queue[string]
}

// Options say where volumes are made.
type Options struct {
	// Worker creates, expands and deletes volumes.
	Worker *provision.Worker
	// NodeName is the node on which volumes are, NodeLabels its labels until its stored object says more.
	NodeName   string
	NodeLabels map[string]string
	// UnknownClassWaits says that claims of a storage class that does not exist wait for it. Otherwise they get volumes of the
	// default class.
	UnknownClassWaits bool
}

// Pods are the pods that wait, run or have to be counted.
type Pods interface {
	// Known reports whether a pod is one of them.
	Known(uid types.UID) bool
	// Held returns why a pod is kept waiting for a claim, if it is.
	Held(uid types.UID) (why string, held bool)
	// Retry tries at once what has failed for a known pod.
	Retry(uid types.UID)
	// Readmit looks again at whether a known pod can go to the node.
	Readmit(p *corev1.Pod)
}

// creation is a volume that is being created for a claim. It is stored until the PersistentVolume is, or until the volume
// was deleted again.
type creation struct {
	Claim    string // its key
	ClaimUID types.UID
	Volume   *corev1.PersistentVolume
	Task     provision.Volume
	// Enforce says that the size has to be enforced.
	Enforce bool

	after     time.Time // of the next try
	abandoned bool      // nobody wants it any more
}

// volume is what identifies the volume.
func (m *creation) volume() provision.Volume {
	return provision.Volume{Name: m.Task.Name, Owner: m.Task.Owner}
}

// New makes the controller of the claims that uses knows. doors lets in the claims that it makes for pods.
func New(timers *loop.Timers, o Options, uses *Uses, doors *door.Keeper, pods Pods) *Claims {
	return &Claims{
		Uses: uses, timers: timers, worker: o.Worker, nodeName: o.NodeName, labels: o.NodeLabels,
		unknownWaits: o.UnknownClassWaits, doors: doors, pods: pods,
		classes: map[string]*storagev1.StorageClass{}, free: map[string]*corev1.PersistentVolume{},
		classOf: map[string]string{}, unbound: map[string]struct{}{}, said: map[string]string{}, made: map[string]types.UID{},
		creating: map[string]*creation{}, creatingFor: multimap.Map[string, string]{},
		failures: failures{}, refusals: failures{}, dirtyVolumes: loop.NewQueue[string](),
	}
}

// Rebuild reads all claims, volumes and classes. Each is looked at once: something may have been left undone.
func (c *Claims) Rebuild(s *store.Snapshot, _ time.Time) error {
	node := &corev1.Node{}
	if ok, err := objects.Read(s, store.Key(objects.Nodes, "", c.nodeName), node); err != nil {
		return err
	} else if ok {
		c.labels = node.Labels
	}
	if err := objects.Each(s, objects.StorageClasses, func(_ string, class *storagev1.StorageClass) error {
		c.classes[class.Name] = class
		return nil
	}); err != nil {
		return err
	}
	if err := objects.Each(s, objects.Volumes, func(_ string, pv *corev1.PersistentVolume) error {
		c.noteVolume(pv)
		c.dirtyVolumes.Add(pv.Name)
		return nil
	}); err != nil {
		return err
	}
	if err := objects.Each(s, objects.Claims, func(key string, obj *corev1.PersistentVolumeClaim) error {
		state := claim.StateOf(obj)
		c.states[key] = &state
		c.dirtyClaims.Add(key)
		return nil
	}); err != nil {
		return err
	}
	var failed error
	s.Range(objects.Provisionings+"/", "", func(o store.Object) bool {
		made := &creation{}
		if failed = json.Unmarshal(o.Value, made); failed != nil {
			failed = fmt.Errorf("%s: %w", o.Key, failed)
			return false
		}
		c.noteCreation(made)
		c.dirtyClaims.Add(made.Claim)
		return true
	})
	return failed
}

// Fold takes in what clients have written.
func (c *Claims) Fold(p *loop.Pass, change loop.Change) error {
	if change.Deleted {
		if change.Resource == objects.StorageClasses {
			_, name := objects.NameOf(change.Object.Key)
			delete(c.classes, name)
			c.worldChanged()
		}
		return nil // Gone takes in the rest
	}
	switch change.Resource {
	case objects.Claims:
		c.dirtyClaims.Add(change.Object.Key)
	case objects.Volumes:
		_, name := objects.NameOf(change.Object.Key)
		c.dirtyVolumes.Add(name)
	case objects.StorageClasses:
		class := &storagev1.StorageClass{}
		if err := objects.Decode(change.Object, class); err != nil {
			return err
		}
		c.classes[class.Name] = class
		c.worldChanged()
	case objects.Nodes:
		node := &corev1.Node{}
		if err := objects.Decode(change.Object, node); err != nil {
			return err
		}
		if node.Name == c.nodeName && !maps.Equal(c.labels, node.Labels) {
			c.labels = node.Labels
			c.worldChanged()
			for key := range c.byClaim {
				c.dirtyClaims.Add(key)
			}
		}
	}
	return nil
}

// Gone takes in that a claim, a volume or a pod has been removed.
func (c *Claims) Gone(_ *loop.Pass, o store.Object) {
	switch objects.ResourceOf(o.Key) {
	case objects.Claims:
		c.dirtyClaims.Add(o.Key)
		obj := &corev1.PersistentVolumeClaim{}
		if objects.Decode(o, obj) == nil && obj.Spec.VolumeName != "" {
			c.dirtyVolumes.Add(obj.Spec.VolumeName)
		}
	case objects.Volumes:
		_, name := objects.NameOf(o.Key)
		c.dirtyVolumes.Add(name)
		pv := &corev1.PersistentVolume{}
		if objects.Decode(o, pv) == nil && pv.Spec.ClaimRef != nil {
			c.dirtyClaims.Add(claim.Key(pv.Spec.ClaimRef.Namespace, pv.Spec.ClaimRef.Name))
		}
	case objects.Pods:
		for key, pods := range c.holders {
			if _, ok := pods[o.Key]; ok {
				delete(pods, o.Key)
				c.dirtyClaims.Add(key)
			}
		}
	}
}

// Changed takes in what other controllers have written.
func (c *Claims) Changed(key string) {
	switch objects.ResourceOf(key) {
	case objects.Claims:
		c.dirtyClaims.Add(key)
	case objects.Volumes:
		_, name := objects.NameOf(key)
		c.dirtyVolumes.Add(name)
	case objects.Pods:
		c.dirtyPods.Add(key)
	}
}

// Due implements loop.Controller.
func (c *Claims) Due(_ *loop.Pass, key string) error {
	c.Changed(key)
	return nil
}

// Dirty implements loop.Controller.
func (c *Claims) Dirty() bool {
	return c.dirtyClaims.Len()+c.dirtyVolumes.Len()+c.dirtyPods.Len() > 0 || c.worker.Done()
}

// Settle implements loop.Controller.
func (c *Claims) Settle(p *loop.Pass) (bool, error) {
	if results := c.worker.Take(); len(results) > 0 {
		for _, r := range results {
			if err := c.finished(p, r); err != nil {
				return true, err
			}
		}
		return true, nil
	}
	for _, q := range []struct {
		queue  *loop.Queue[string]
		settle func(*loop.Pass, string) error
	}{{c.dirtyPods, c.settlePod}, {c.dirtyVolumes, c.settleVolume}, {c.dirtyClaims, c.settleClaim}} {
		if settled, err := q.queue.Settle(func(key string) error {
			if !p.Works(key) {
				return nil
			}
			return q.settle(p, key)
		}); settled || err != nil {
			return settled, err
		}
	}
	return false, nil
}

// finished takes in what became of a task.
func (c *Claims) finished(p *loop.Pass, r provision.Result) error {
	switch r.Op {
	case provision.Create:
		return c.created(p, r)
	case provision.Expand:
		return c.expanded(p, r)
	default:
		return c.deleted(p, r)
	}
}

// do has a task done once the pass is durable.
func (c *Claims) do(p *loop.Pass, op provision.Op, v provision.Volume) {
	p.After(func() { c.worker.Do(provision.Task{Op: op, Volume: v}) })
}

// The wait before something that has failed is tried again doubles from the first to the second of these.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// failures are how often in a row something has failed.
type failures map[string]int

// retry counts a failure, and returns when to try again.
func (f failures) retry(what string, now time.Time) time.Time {
	n := f[what]
	f[what]++
	return now.Add(min(lastRetry, firstRetry<<min(n, 10)))
}

// noteVolume takes in what claims need to know of a volume.
func (c *Claims) noteVolume(pv *corev1.PersistentVolume) {
	if !core.IsProvisioned(pv) {
		c.classOf[pv.Name] = pv.Spec.StorageClassName
	}
	taken := pv.DeletionTimestamp != nil || pv.Spec.ClaimRef != nil && (pv.Status.Phase == corev1.VolumeBound ||
		pv.Status.Phase == corev1.VolumeReleased || pv.Status.Phase == corev1.VolumeFailed)
	if taken {
		delete(c.free, pv.Name)
		c.world = nil
		return
	}
	free := pv.DeepCopy()
	free.ManagedFields = nil
	c.free[pv.Name] = free
	c.worldChanged()
}

// worldChanged has all claims decided about again that wait.
func (c *Claims) worldChanged() {
	c.world = nil
	for key := range c.unbound {
		c.dirtyClaims.Add(key)
	}
}

// see returns the world as it is known.
func (c *Claims) see() *claim.World {
	if c.world != nil {
		return c.world
	}
	w := &claim.World{NodeLabels: c.labels, UnknownWaits: c.unknownWaits, ClassesOfVolumes: map[string]int{}}
	for _, name := range slices.Sorted(maps.Keys(c.classes)) {
		w.Classes = append(w.Classes, c.classes[name])
	}
	for _, name := range slices.Sorted(maps.Keys(c.free)) {
		w.Free = append(w.Free, c.free[name])
	}
	for _, class := range c.classOf {
		w.ClassesOfVolumes[class]++
	}
	c.world = w
	return w
}

// say records an event about a claim or volume, unless it was the last that was said.
func (c *Claims) say(p *loop.Pass, key string, about corev1.ObjectReference, e *claim.Event) error {
	if e == nil || c.said[key] == e.Reason+e.Message {
		return nil
	}
	c.said[key] = e.Reason + e.Message
	return p.Event(about, events.VolumeController, e.Type, e.Reason, e.Message)
}
