package control

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
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/provision"
	"github.com/jobd/jobd/store"
)

// claims is the controller of PersistentVolumeClaims and PersistentVolumes. It binds them to each other, has volumes
// created, expanded and deleted, and says which pods wait for their claims. The other files of that name have the parts:
// claims_bind.go what becomes of a claim, claims_volume.go of a volume, claims_pod.go of the pods that use claims.
//
// A volume that is to be created is noted in the store before, and its PersistentVolume is removed only after its data:
// so whatever is on the disk is also in the store, and a start goes on with what the last run has left undone.
type claims struct {
	loop.Base
	noPods
	timers       *loop.Timers
	worker       *provision.Worker
	nodeName     string
	unknownWaits bool
	pods         *pods
	admission    *admission

	classes map[string]*storagev1.StorageClass
	labels  map[string]string // of the node
	// free are the volumes that claims may be bound to, classOf the classes of those that jobd has not created; both by name.
	free    map[string]*corev1.PersistentVolume
	classOf map[string]string
	world   *claim.World // of all these; nil when it is to be made anew

	states  map[string]*claim.State // of all claims, by their keys
	unbound map[string]struct{}
	said    map[string]string // what was last said of a claim, volume or pod, by its key
	holders map[string]map[string]struct{}

	uses    map[string]podUses             // by the key of the pod
	byClaim map[string]map[string]struct{} // the keys of the pods that use a claim
	made    map[string]types.UID           // the pods for which claims are known to have been made, by the keys of those

	creating    map[string]*creation           // by the name of the volume
	creatingFor map[string]map[string]struct{} // their names, by the key of the claim
	failures    failures                       // by the name of the volume
	refusals    failures                       // of claims that a pod should have, by the key of the pod

	dirtyClaims, dirtyVolumes, dirtyPods *loop.Queue[string]
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

func newClaims(timers *loop.Timers, config *Config, pods *pods, admission *admission) *claims {
	return &claims{
		timers: timers, worker: config.Volumes, nodeName: config.NodeName, labels: config.NodeLabels,
		unknownWaits: config.UnknownStorageClassWaits, pods: pods, admission: admission,
		classes: map[string]*storagev1.StorageClass{}, free: map[string]*corev1.PersistentVolume{},
		classOf: map[string]string{}, states: map[string]*claim.State{}, unbound: map[string]struct{}{},
		said: map[string]string{}, holders: map[string]map[string]struct{}{}, uses: map[string]podUses{},
		byClaim: map[string]map[string]struct{}{}, made: map[string]types.UID{}, creating: map[string]*creation{},
		creatingFor: map[string]map[string]struct{}{}, failures: failures{}, refusals: failures{},
		dirtyClaims: loop.NewQueue[string](), dirtyVolumes: loop.NewQueue[string](), dirtyPods: loop.NewQueue[string](),
	}
}

// Rebuild reads all claims, volumes and classes. Each is looked at once: something may have been left undone.
func (c *claims) Rebuild(s *store.Snapshot, _ time.Time) error {
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
func (c *claims) Fold(p *loop.Pass, change loop.Change) error {
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
func (c *claims) Gone(_ *loop.Pass, o store.Object) {
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

// changed takes in what other controllers have written.
func (c *claims) changed(key string) {
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
func (c *claims) Due(_ *loop.Pass, key string) error {
	c.changed(key)
	return nil
}

// Dirty implements loop.Controller.
func (c *claims) Dirty() bool {
	return c.dirtyClaims.Len()+c.dirtyVolumes.Len()+c.dirtyPods.Len() > 0 || c.worker.Done()
}

// Settle implements loop.Controller.
func (c *claims) Settle(p *loop.Pass) (bool, error) {
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
func (c *claims) finished(p *loop.Pass, r provision.Result) error {
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
func (c *claims) do(p *loop.Pass, op provision.Op, v provision.Volume) {
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
func (c *claims) noteVolume(pv *corev1.PersistentVolume) {
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
func (c *claims) worldChanged() {
	c.world = nil
	for key := range c.unbound {
		c.dirtyClaims.Add(key)
	}
}

// see returns the world as it is known.
func (c *claims) see() *claim.World {
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
func (c *claims) say(p *loop.Pass, key string, about corev1.ObjectReference, e *claim.Event) error {
	if e == nil || c.said[key] == e.Reason+e.Message {
		return nil
	}
	c.said[key] = e.Reason + e.Message
	return p.Event(about, events.VolumeController, e.Type, e.Reason, e.Message)
}
