package volumes

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	volumehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/api/storageclass"
	"github.com/jobd/jobd/daemon/claim"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/provision"
	"github.com/jobd/jobd/runtime/crash"
	"github.com/jobd/jobd/store"
)

// settleClaim decides what a claim needs.
func (c *Claims) settleClaim(p *loop.Pass, key string) error {
	obj, err := c.claim(p, key)
	if err != nil {
		return err
	}
	c.abandon(p, key, obj)
	if obj == nil {
		c.forgetClaim(key)
		return nil
	}
	if obj.DeletionTimestamp != nil {
		return c.letGo(p, key, obj)
	}
	if obj.Status.Phase == corev1.ClaimBound || obj.Status.Phase == corev1.ClaimLost ||
		metav1.HasAnnotation(obj.ObjectMeta, volumehelpers.AnnBindCompleted) {
		return c.settleBound(p, key, obj)
	}
	return c.settleUnbound(p, key, obj)
}

// claim reads a claim, nil if there is none.
func (c *Claims) claim(p *loop.Pass, key string) (*corev1.PersistentVolumeClaim, error) {
	obj := &corev1.PersistentVolumeClaim{}
	ok, err := objects.Read(p, key, obj)
	if err != nil || !ok {
		return nil, err
	}
	return obj, nil
}

// volume reads a volume, nil if there is none.
func (c *Claims) volume(p *loop.Pass, name string) (*corev1.PersistentVolume, error) {
	if name == "" {
		return nil, nil
	}
	pv := &corev1.PersistentVolume{}
	ok, err := objects.Read(p, volumeKey(name), pv)
	if err != nil || !ok {
		return nil, err
	}
	return pv, nil
}

func volumeKey(name string) string { return store.Key(objects.Volumes, "", name) }

func volumeReference(pv *corev1.PersistentVolume) corev1.ObjectReference {
	return corev1.ObjectReference{Kind: "PersistentVolume", APIVersion: "v1", Name: pv.Name, UID: pv.UID}
}

// settleUnbound binds a claim to a volume, or has one created, if that can be.
func (c *Claims) settleUnbound(p *loop.Pass, key string, obj *corev1.PersistentVolumeClaim) error {
	c.unbound[key] = struct{}{}
	named, err := c.volume(p, obj.Spec.VolumeName)
	if err != nil {
		return err
	}
	consumer, err := c.hasConsumer(p, key)
	if err != nil {
		return err
	}
	// A node was selected for a pod before, or for files that are to be there before the first pod.
	consumer = consumer || obj.Annotations[volumehelpers.AnnSelectedNode] == c.nodeName
	d := claim.Next(obj, named, c.see(), consumer)
	state := claim.StateOf(obj)
	state.Delays = d.Class.Delays()
	switch {
	case d.Default != "":
		obj.Spec.StorageClassName = &d.Default
		c.dirtyClaims.Add(key)
		return p.Put(key, obj)
	case d.Bind != nil:
		pv, err := c.volume(p, d.Bind.Name)
		if err != nil || pv == nil {
			return err
		}
		return c.bind(p, key, obj, pv)
	case d.Provision:
		state.Why = c.why(key)
		if err := c.create(p, key, obj, d.Class); err != nil {
			return err
		}
	case d.Class.Storage != nil && d.Class.Storage.Provisioner == storageclass.NoProvisioner && consumer && d.Class.Delays():
		state.Why = "1 node(s) didn't find available persistent volumes to bind"
	}
	c.set(key, state)
	return c.say(p, key, core.ClaimReference(obj), d.Event)
}

// why returns why no volume has been created for a claim, if that has failed.
func (c *Claims) why(key string) string {
	if s := c.states[key]; s != nil {
		return s.Why
	}
	return ""
}

// set takes in what pods need to know of a claim, and has those looked at again that use it.
func (c *Claims) set(key string, now claim.State) {
	was := c.states[key]
	if was != nil && was.UID == now.UID {
		now.User = was.User
	}
	if was != nil && *was == now {
		return
	}
	if now.Owner != c.made[key] {
		delete(c.made, key)
	}
	c.states[key] = &now
	c.usersChanged(key)
}

func (c *Claims) forgetClaim(key string) {
	delete(c.states, key)
	delete(c.made, key)
	delete(c.unbound, key)
	delete(c.said, key)
	delete(c.holders, key)
	c.timers.Set(c, key, noTime)
	c.usersChanged(key)
}

// bind binds a claim and a volume to each other.
func (c *Claims) bind(p *loop.Pass, key string, obj *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) error {
	if !volumehelpers.IsVolumeBoundToClaim(pv, obj) {
		metav1.SetMetaDataAnnotation(&pv.ObjectMeta, volumehelpers.AnnBoundByController, "yes")
	}
	pv.Spec.ClaimRef = ptr.To(core.ClaimReference(obj))
	c.setPhase(p, pv, corev1.VolumeBound, "")
	if err := p.Put(volumeKey(pv.Name), pv); err != nil {
		return err
	}
	c.noteVolume(pv)
	if obj.Spec.VolumeName != pv.Name {
		obj.Spec.VolumeName = pv.Name
		metav1.SetMetaDataAnnotation(&obj.ObjectMeta, volumehelpers.AnnBoundByController, "yes")
	}
	metav1.SetMetaDataAnnotation(&obj.ObjectMeta, volumehelpers.AnnBindCompleted, "yes")
	c.dirtyVolumes.Add(pv.Name)
	return c.settleBound(p, key, obj)
}

// setPhase sets the phase of a volume.
func (c *Claims) setPhase(p *loop.Pass, pv *corev1.PersistentVolume, phase corev1.PersistentVolumePhase, message string) {
	if pv.Status.Phase != phase {
		pv.Status.LastPhaseTransitionTime = ptr.To(metav1.NewTime(p.Now))
	}
	pv.Status.Phase, pv.Status.Message = phase, message
}

// settleBound keeps the status of a claim that is bound, and has its volume expanded.
func (c *Claims) settleBound(p *loop.Pass, key string, obj *corev1.PersistentVolumeClaim) error {
	delete(c.unbound, key)
	was := obj.DeepCopy()
	pv, err := c.volume(p, obj.Spec.VolumeName)
	if err != nil {
		return err
	}
	if lost := claim.Lost(obj, pv); lost != nil {
		obj.Status.Phase = corev1.ClaimLost
		obj.Status.AccessModes, obj.Status.Capacity = nil, nil
		if err := c.say(p, key, core.ClaimReference(obj), lost); err != nil {
			return err
		}
	} else {
		if pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID == "" {
			return c.bind(p, key, obj, pv)
		}
		obj.Status.Phase, obj.Status.AccessModes = corev1.ClaimBound, pv.Spec.AccessModes
		obj.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: pv.Spec.Capacity[corev1.ResourceStorage]}
		if err := c.grow(p, key, obj, pv); err != nil {
			return err
		}
	}
	if !equality.Semantic.DeepEqual(was, obj) || !metav1.HasAnnotation(was.ObjectMeta, volumehelpers.AnnBindCompleted) {
		if err := p.Put(key, obj); err != nil {
			return err
		}
	}
	state := claim.StateOf(obj)
	state.Elsewhere = pv != nil && !claim.ForThisNode(pv, c.labels)
	c.set(key, state)
	return nil
}

// grow has the volume of a claim expanded if the claim requests that.
func (c *Claims) grow(p *loop.Pass, key string, obj *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) error {
	growth := claim.GrowthOf(obj, pv, c.see().ClassOf(obj))
	if growth.To == 0 {
		if growth.Event == nil {
			obj.Status.Conditions = slices.DeleteFunc(obj.Status.Conditions, ofResize)
		}
		return c.say(p, key, core.ClaimReference(obj), growth.Event)
	}
	if !slices.ContainsFunc(obj.Status.Conditions, ofResize) {
		obj.Status.Conditions = append(obj.Status.Conditions, corev1.PersistentVolumeClaimCondition{
			Type: corev1.PersistentVolumeClaimResizing, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(p.Now),
		})
	}
	c.do(p, provision.Expand, provision.Volume{Name: pv.Name, Owner: obj.Namespace, Size: growth.To})
	return nil
}

func ofResize(cond corev1.PersistentVolumeClaimCondition) bool {
	return cond.Type == corev1.PersistentVolumeClaimResizing || cond.Type == corev1.PersistentVolumeClaimControllerResizeError
}

// expanded takes in that a volume was expanded, or why not.
func (c *Claims) expanded(p *loop.Pass, r provision.Result) error {
	pv, err := c.volume(p, r.Volume.Name)
	if err != nil || pv == nil || pv.Spec.ClaimRef == nil {
		return err
	}
	key := claim.Key(pv.Spec.ClaimRef.Namespace, pv.Spec.ClaimRef.Name)
	obj, err := c.claim(p, key)
	if err != nil || obj == nil || obj.UID != pv.Spec.ClaimRef.UID {
		return err
	}
	since := metav1.NewTime(p.Now)
	for _, was := range obj.Status.Conditions {
		if was.Type == corev1.PersistentVolumeClaimControllerResizeError && was.Status == corev1.ConditionTrue {
			since = was.LastTransitionTime // it has failed before
		}
	}
	obj.Status.Conditions = slices.DeleteFunc(obj.Status.Conditions, ofResize)
	if r.Err != nil {
		obj.Status.Conditions = append(obj.Status.Conditions, corev1.PersistentVolumeClaimCondition{
			Type: corev1.PersistentVolumeClaimControllerResizeError, Status: corev1.ConditionTrue, LastTransitionTime: since,
			Message: r.Err.Error(),
		})
		c.timers.Set(c, key, c.failures.retry(pv.Name, p.Now))
		if err := c.say(p, key, core.ClaimReference(obj), &claim.Event{
			Type: corev1.EventTypeWarning, Reason: claim.VolumeResizeFailed,
			Message: fmt.Sprintf("resize volume %q failed: %v", pv.Name, r.Err),
		}); err != nil {
			return err
		}
		return p.Put(key, obj)
	}
	delete(c.failures, pv.Name)
	size := *resource.NewQuantity(r.Volume.Size, resource.BinarySI)
	if requested := obj.Spec.Resources.Requests[corev1.ResourceStorage]; requested.Value() == r.Volume.Size {
		size = requested
	}
	pv.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: size}
	if err := p.Put(volumeKey(pv.Name), pv); err != nil {
		return err
	}
	if err := p.Put(key, obj); err != nil {
		return err
	}
	c.dirtyClaims.Add(key)
	return c.say(p, key, core.ClaimReference(obj), &claim.Event{
		Type: corev1.EventTypeNormal, Reason: claim.VolumeResizeSuccessful, Message: "Resize volume succeeded",
	})
}

// create has a volume created for a claim. What it will be is decided here, and stored before anything is done.
func (c *Claims) create(p *loop.Pass, key string, obj *corev1.PersistentVolumeClaim, class claim.Class) error {
	name := claim.VolumeName(obj.UID)
	if made := c.creating[name]; made != nil {
		if made.abandoned || made.after.After(p.Now) {
			return nil
		}
		c.do(p, provision.Create, made.Task)
		return nil
	}
	parameters, errs := storageclass.ParametersOf(class.Storage)
	if len(errs) > 0 {
		return c.say(p, key, core.ClaimReference(obj), provisioningFailed(class.Storage, errs.ToAggregate()))
	}
	block := ptr.Deref(obj.Spec.VolumeMode, corev1.PersistentVolumeFilesystem) == corev1.PersistentVolumeBlock
	size := obj.Spec.Resources.Requests[corev1.ResourceStorage]
	made := &creation{
		Claim: key, ClaimUID: obj.UID, Enforce: parameters.Enforce, Volume: newVolume(name, obj, class),
		Task: provision.Volume{
			Name: name, Owner: obj.Namespace, Size: size.Value(), Loop: parameters.Loop || block, Block: block, FSType: parameters.FSType,
		},
	}
	if block {
		made.Task.FSType = ""
	}
	if err := c.store(p, made); err != nil {
		return err
	}
	annotations := map[string]string{
		volumehelpers.AnnStorageProvisioner: core.LocalProvisioner, volumehelpers.AnnBetaStorageProvisioner: core.LocalProvisioner,
	}
	if class.Delays() {
		annotations[volumehelpers.AnnSelectedNode] = c.nodeName
	}
	for name, value := range annotations {
		metav1.SetMetaDataAnnotation(&obj.ObjectMeta, name, value)
	}
	if err := p.Put(key, obj); err != nil {
		return err
	}
	c.do(p, provision.Create, made.Task)
	crash.At("claim.create.decided")
	return nil
}

// store notes in the store that a volume is being created.
func (c *Claims) store(p *loop.Pass, made *creation) error {
	value, err := json.Marshal(made)
	if err != nil {
		return err
	}
	c.noteCreation(made)
	p.PutStored(store.Object{Key: creationKey(made.Task.Name), UID: string(uuid.NewUUID()), Value: value})
	return nil
}

func (c *Claims) noteCreation(made *creation) {
	name := made.Task.Name
	c.creating[name] = made
	c.creatingFor.Add(made.Claim, name)
}

func creationKey(name string) string { return store.Key(objects.Provisionings, "", name) }

func (c *Claims) dropCreation(p *loop.Pass, name string) {
	if made := c.creating[name]; made != nil {
		delete(c.creating, name)
		c.creatingFor.Remove(made.Claim, name)
	}
	p.Delete(creationKey(name))
}

// newVolume returns the PersistentVolume for a claim. Where it is, is known once it has been created.
func newVolume(name string, obj *corev1.PersistentVolumeClaim, class claim.Class) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(uuid.NewUUID()),
		Annotations: map[string]string{volumehelpers.AnnDynamicallyProvisioned: core.LocalProvisioner},
	}}
	pv.Spec = corev1.PersistentVolumeSpec{
		AccessModes:      obj.Spec.AccessModes,
		Capacity:         corev1.ResourceList{corev1.ResourceStorage: obj.Spec.Resources.Requests[corev1.ResourceStorage]},
		StorageClassName: class.Name, VolumeMode: obj.Spec.VolumeMode, ClaimRef: ptr.To(core.ClaimReference(obj)),
		PersistentVolumeReclaimPolicy: ptr.Deref(class.Storage.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete),
		PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{}},
	}
	return pv
}

func provisioningFailed(class *storagev1.StorageClass, err error) *claim.Event {
	return &claim.Event{
		Type: corev1.EventTypeWarning, Reason: claim.ProvisioningFailed,
		Message: fmt.Sprintf("failed to provision volume with StorageClass %q: %v", class.Name, err),
	}
}

// created takes in that a volume was created, or why not.
func (c *Claims) created(p *loop.Pass, r provision.Result) error {
	name := r.Volume.Name
	made := c.creating[name]
	if made == nil || made.abandoned {
		return nil
	}
	obj, err := c.claim(p, made.Claim)
	if err != nil {
		return err
	}
	if unwanted(made, obj) {
		c.abandonOne(p, name)
		return nil
	}
	failed := r.Err
	if failed == nil && made.Enforce && !r.Enforced {
		failed = fmt.Errorf("the size cannot be enforced, which the class asks for: %s", r.Warning)
		c.do(p, provision.Delete, made.volume())
	}
	about := core.ClaimReference(obj)
	if failed != nil {
		made.after = c.failures.retry(name, p.Now)
		c.timers.Set(c, made.Claim, made.after)
		class := c.see().ClassOf(obj).Storage
		if class == nil {
			class = &storagev1.StorageClass{}
		}
		event := provisioningFailed(class, failed)
		state := claim.StateOf(obj)
		state.Delays, state.Why = c.see().ClassOf(obj).Delays(), event.Message
		c.set(made.Claim, state)
		return c.say(p, made.Claim, about, event)
	}
	crash.At("claim.created")
	delete(c.failures, name)
	c.dropCreation(p, name)
	pv := made.Volume
	pv.CreationTimestamp = metav1.NewTime(p.Now)
	pv.Spec.Local.Path = r.Path
	core.PrepareVolume(pv, p.Now)
	if err := c.bind(p, made.Claim, obj, pv); err != nil {
		return err
	}
	if err := c.say(p, made.Claim, about, &claim.Event{
		Type: corev1.EventTypeNormal, Reason: claim.ProvisioningSucceeded, Message: "Successfully provisioned volume " + name,
	}); err != nil || r.Warning == "" {
		return err
	}
	return c.say(p, made.Claim, about, &claim.Event{
		Type: corev1.EventTypeWarning, Reason: claim.SizeNotEnforced, Message: r.Warning,
	})
}

// unwanted reports whether a claim, nil if there is none, no longer needs the volume that is being created for it.
func unwanted(made *creation, obj *corev1.PersistentVolumeClaim) bool {
	return obj == nil || obj.UID != made.ClaimUID || obj.DeletionTimestamp != nil ||
		obj.Spec.VolumeName != "" && obj.Spec.VolumeName != made.Task.Name
}

// abandon deletes the volumes that are being created for a claim of that name but are not needed. obj is the claim that has the
// name now; nil if there is none.
func (c *Claims) abandon(p *loop.Pass, key string, obj *corev1.PersistentVolumeClaim) {
	for name := range c.creatingFor[key] {
		if unwanted(c.creating[name], obj) {
			c.abandonOne(p, name)
		}
	}
}

func (c *Claims) abandonOne(p *loop.Pass, name string) {
	made := c.creating[name]
	made.abandoned = true
	c.do(p, provision.Delete, made.volume())
}

// letGo removes the protection of a claim that is being deleted, once no pod uses it.
func (c *Claims) letGo(p *loop.Pass, key string, obj *corev1.PersistentVolumeClaim) error {
	state := claim.StateOf(obj)
	c.set(key, state)
	delete(c.unbound, key)
	if slices.Contains(obj.Finalizers, core.ClaimProtection) {
		used, err := c.used(p, key, obj)
		if err != nil || used {
			return err
		}
		obj.Finalizers = slices.DeleteFunc(obj.Finalizers, func(f string) bool { return f == core.ClaimProtection })
		if err := p.Put(key, obj); err != nil {
			return err
		}
	}
	if storage.Removable(obj) {
		p.Delete(key)
	}
	return nil
}
