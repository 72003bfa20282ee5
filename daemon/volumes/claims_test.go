package volumes_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/api/storageclass"
	"github.com/jobd/jobd/daemon/claim"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/provision"
	"github.com/jobd/jobd/store"
)

// disk is a place for volumes that fails as it is told.
type disk struct {
	mu   sync.Mutex
	has  map[string]int64
	fail map[provision.Op]error
	slow time.Duration
}

func newDisk() *disk { return &disk{has: map[string]int64{}, fail: map[provision.Op]error{}} }

func (d *disk) begin(ctx context.Context, op provision.Op) error {
	select {
	case <-time.After(d.slow):
	case <-ctx.Done():
		return ctx.Err()
	}
	d.mu.Lock()
	return d.fail[op]
}

func (d *disk) Provision(ctx context.Context, v provision.Volume) (provision.Provisioned, error) {
	err := d.begin(ctx, provision.Create)
	if ctx.Err() != nil {
		return provision.Provisioned{}, err
	}
	defer d.mu.Unlock()
	if err == nil {
		d.has[v.Name] = v.Size
	}
	return provision.Provisioned{Path: "/disk/" + v.Name, Enforced: true}, err
}

func (d *disk) Expand(ctx context.Context, name string, size int64) error {
	err := d.begin(ctx, provision.Expand)
	if ctx.Err() != nil {
		return err
	}
	defer d.mu.Unlock()
	if err == nil {
		d.has[name] = size
	}
	return err
}

func (d *disk) Delete(ctx context.Context, name string) error {
	err := d.begin(ctx, provision.Delete)
	if ctx.Err() != nil {
		return err
	}
	defer d.mu.Unlock()
	if err == nil {
		delete(d.has, name)
	}
	return err
}

func (d *disk) set(op provision.Op, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail[op] = err
}

func (d *disk) volumes() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.has))
}

// world is a world with claims and volumes.
type world struct{ *controltest.World }

// withClaims runs a test in a world with the default class and a disk for volumes.
func withClaims(t *testing.T, test func(w *world, d *disk)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{controltest.New(t)}
		w.Stop()
		d := newDisk()
		w.Volumes = d
		w.Start()
		defer w.End()
		class := storageclass.Local()
		class.UID = uuid.NewUUID()
		w.Put(objects.Key(objects.StorageClasses, class), class)
		test(w, d)
	})
}

func (w *world) class(name string, change func(*storagev1.StorageClass)) {
	w.T.Helper()
	class := storageclass.Local()
	class.Name, class.UID, class.Annotations = name, uuid.NewUUID(), nil
	change(class)
	w.Put(objects.Key(objects.StorageClasses, class), class)
}

// newClaim does what the API does with a new claim.
func (w *world) newClaim(name, class string, change ...func(*corev1.PersistentVolumeClaim)) {
	w.T.Helper()
	obj := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: uuid.NewUUID()}}
	obj.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	obj.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	if class != "" {
		obj.Spec.StorageClassName = &class
	}
	for _, c := range change {
		c(obj)
	}
	scheme.Scheme.Default(obj)
	core.PrepareClaim(obj)
	w.Put(objects.Key(objects.Claims, obj), obj)
}

func (w *world) newVolume(name, class, size string, change ...func(*corev1.PersistentVolume)) {
	w.T.Helper()
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uuid.NewUUID()}}
	pv.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	pv.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	pv.Spec.StorageClassName = class
	pv.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/data"}
	for _, c := range change {
		c(pv)
	}
	scheme.Scheme.Default(pv)
	core.PrepareVolume(pv, time.Now())
	w.Put(objects.Key(objects.Volumes, pv), pv)
}

// newPod does what the API does with a new pod, which uses claims.
func (w *world) newPod(name, duration string, volumes ...corev1.Volume) {
	w.T.Helper()
	w.newPodFor("", name, duration, volumes...)
}

// newPodFor makes a pod whose manifest names a node.
func (w *world) newPodFor(node, name, duration string, volumes ...corev1.Volume) {
	w.T.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Annotations: controltest.Simulate("", duration, "0").Spec.Template.Annotations},
	}
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: "busybox"}}
	p.Spec.RestartPolicy, p.Spec.Volumes, p.Spec.NodeName = corev1.RestartPolicyNever, volumes, node
	core.SetPodDefaults(p)
	core.PreparePod(p, time.Now())
	w.Put(objects.Key(objects.Pods, p), p)
}

func using(claim string) corev1.Volume {
	v := corev1.Volume{Name: "data"}
	v.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}
	return v
}

func read[T any, P interface {
	*T
	objects.Object
}](w *world, resource, namespace, name string) P {
	w.T.Helper()
	synctest.Wait()
	obj, found := P(new(T)), false
	if err := w.Store.View(func(s *store.Snapshot) (err error) {
		found, err = objects.Read(s, store.Key(resource, namespace, name), obj)
		return err
	}); err != nil {
		w.T.Fatal(err)
	}
	if !found {
		return nil
	}
	return obj
}

func (w *world) claim(name string) *corev1.PersistentVolumeClaim {
	return read[corev1.PersistentVolumeClaim](w, objects.Claims, "default", name)
}

func (w *world) volume(name string) *corev1.PersistentVolume {
	return read[corev1.PersistentVolume](w, objects.Volumes, "", name)
}

func (w *world) podNamed(name string) *corev1.Pod {
	return read[corev1.Pod](w, objects.Pods, "default", name)
}

func (w *world) deleteClaim(name string) {
	obj := w.claim(name)
	w.Delete(objects.Key(objects.Claims, obj), obj)
}

func (w *world) waits(name string) string {
	w.T.Helper()
	time.Sleep(2 * time.Second)
	synctest.Wait()
	p := w.podNamed(name)
	if p.Spec.NodeName != "" {
		return ""
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			why, _, _ := strings.Cut(strings.TrimPrefix(c.Message, "0/1 nodes are available: "), ". preemption")
			return why
		}
	}
	return "?"
}

// events returns the reasons of the events about an object, in order.
func (w *world) reasons(name string) string {
	w.T.Helper()
	synctest.Wait()
	var all []*corev1.Event
	if err := w.Store.View(func(s *store.Snapshot) error {
		return objects.Each(s, objects.Events, func(_ string, e *corev1.Event) error {
			if e.InvolvedObject.Name == name {
				all = append(all, e)
			}
			return nil
		})
	}); err != nil {
		w.T.Fatal(err)
	}
	slices.SortFunc(all, func(a, b *corev1.Event) int { return strings.Compare(a.Name, b.Name) })
	var reasons []string
	for _, e := range all {
		reasons = append(reasons, e.Reason)
	}
	return strings.Join(reasons, " ")
}

func bound(t *testing.T, obj *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) {
	t.Helper()
	if obj == nil || pv == nil || obj.Status.Phase != corev1.ClaimBound || pv.Status.Phase != corev1.VolumeBound ||
		obj.Spec.VolumeName != pv.Name || pv.Spec.ClaimRef.UID != obj.UID || obj.Status.Capacity.Storage().IsZero() {
		t.Errorf("they are not bound to each other: claim %+v, volume %+v", obj, pv)
	}
}

func TestAClaimGetsAVolumeWithItsFirstPod(t *testing.T) {
	withClaims(t, func(w *world, d *disk) {
		w.newClaim("data", "")
		if got := w.claim("data"); got.Status.Phase != corev1.ClaimPending || ptr.Deref(got.Spec.StorageClassName, "") != "local" {
			t.Errorf("without a pod: %+v", got)
		}
		w.newPod("p", "1h", using("data"))
		time.Sleep(time.Second)
		obj := w.claim("data")
		name := claim.VolumeName(obj.UID)
		bound(t, obj, w.volume(name))
		if p := w.podNamed("p"); p.Status.Phase != corev1.PodRunning {
			t.Errorf("the pod: %s", p.Status.Phase)
		}
		if got := w.reasons("data"); got != "WaitForFirstConsumer ProvisioningSucceeded" {
			t.Errorf("events: %s", got)
		}

		w.deleteClaim("data")
		if w.claim("data") == nil || len(d.volumes()) != 1 {
			t.Fatal("a claim that a pod uses is gone")
		}
		p := w.podNamed("p")
		w.newPod("late", "1h", using("data"))
		if got := w.waits("late"); got != `persistentvolumeclaim "data" is being deleted` {
			t.Errorf("a pod that comes late waits for: %q", got)
		}
		w.Delete(objects.Key(objects.Pods, p), p)
		time.Sleep(time.Minute)
		if w.podNamed("p") != nil || w.claim("data") != nil || w.volume(name) != nil || len(d.volumes()) > 0 {
			t.Errorf("left: pod %v, claim %v, volume %v, data %v", w.podNamed("p"), w.claim("data"), w.volume(name), d.volumes())
		}
		if got := w.waits("late"); got != `persistentvolumeclaim "data" not found` {
			t.Errorf("afterwards it waits for: %q", got)
		}
	})
}

func TestWhatIsOnTheDiskIsAlwaysKnown(t *testing.T) {
	withClaims(t, func(w *world, d *disk) {
		w.class("now", func(c *storagev1.StorageClass) { c.VolumeBindingMode = ptr.To(storagev1.VolumeBindingImmediate) })
		restart := func() { w.Stop(); w.Start() }
		d.slow = time.Second
		w.newClaim("data", "now")
		time.Sleep(500 * time.Millisecond)
		restart() // while the volume is created
		time.Sleep(2 * time.Second)
		obj := w.claim("data")
		bound(t, obj, w.volume(claim.VolumeName(obj.UID)))

		w.newClaim("gone", "now")
		time.Sleep(500 * time.Millisecond)
		w.deleteClaim("gone")
		if w.claim("gone") != nil {
			t.Error("a claim waits for a volume that nobody needs")
		}
		restart()
		time.Sleep(5 * time.Second)
		if got := d.volumes(); len(got) != 1 {
			t.Errorf("on the disk: %v", got)
		}

		d.set(provision.Delete, errors.New("busy"))
		w.deleteClaim("data")
		time.Sleep(3 * time.Second)
		name := claim.VolumeName(obj.UID)
		if pv := w.volume(name); pv.Status.Phase != corev1.VolumeFailed || pv.Status.Message != "busy" {
			t.Errorf("a volume that cannot be deleted: %+v", pv.Status)
		}
		restart()
		d.set(provision.Delete, nil)
		time.Sleep(2 * time.Minute)
		if w.volume(name) != nil || len(d.volumes()) > 0 {
			t.Errorf("left: %v, on the disk %v", w.volume(name), d.volumes())
		}
		if err := w.Store.View(func(s *store.Snapshot) error {
			if n := s.Count(objects.Provisionings + "/"); n > 0 {
				t.Errorf("%d volumes are still being created", n)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
}

func TestAFailureIsSaidAndTriedAgain(t *testing.T) {
	withClaims(t, func(w *world, d *disk) {
		d.set(provision.Create, errors.New("no space"))
		w.newClaim("data", "local")
		w.newPod("p", "1s", using("data"))
		if got := w.waits("p"); got != `failed to provision volume with StorageClass "local": no space` {
			t.Errorf("the pod waits for: %q", got)
		}
		if got := w.reasons("data"); !strings.HasSuffix(got, "ProvisioningFailed") {
			t.Errorf("events: %s", got)
		}
		d.set(provision.Create, nil)
		time.Sleep(2 * time.Minute)
		if p := w.podNamed("p"); p.Status.Phase != corev1.PodSucceeded {
			t.Errorf("the pod: %+v", p.Status)
		}
	})
}

func TestClaimsGetVolumesThatAreThere(t *testing.T) {
	withClaims(t, func(w *world, d *disk) {
		w.newVolume("large", "manual", "10Gi")
		w.newVolume("small", "manual", "2Gi")
		w.newVolume("tiny", "manual", "1Mi")
		w.newVolume("reserved", "manual", "1Gi", func(pv *corev1.PersistentVolume) {
			pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "theirs"}
		})
		w.newVolume("marked", "manual", "1Ti", func(pv *corev1.PersistentVolume) { pv.Labels = map[string]string{"disk": "fast"} })
		for name, want := range map[string]struct {
			volume string
			change func(*corev1.PersistentVolumeClaim)
		}{
			"first":  {"small", func(*corev1.PersistentVolumeClaim) {}},
			"theirs": {"reserved", func(*corev1.PersistentVolumeClaim) {}},
			"named":  {"large", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "large" }},
			"chosen": {"marked", func(c *corev1.PersistentVolumeClaim) {
				c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "fast"}}
			}},
		} {
			w.newClaim(name, "manual", want.change)
			obj := w.claim(name)
			if obj.Spec.VolumeName != want.volume {
				t.Errorf("%s got %q, want %s", name, obj.Spec.VolumeName, want.volume)
			}
			bound(t, obj, w.volume(want.volume))
		}
		w.newClaim("late", "manual")
		if got := w.claim("late"); got.Status.Phase != corev1.ClaimPending {
			t.Errorf("without a volume: %+v", got)
		}
		w.newPod("p", "1s", using("late"))
		if got := w.waits("p"); got != "pod has unbound immediate PersistentVolumeClaims" {
			t.Errorf("its pod waits for: %q", got)
		}
		w.newVolume("more", "manual", "1Gi")
		bound(t, w.claim("late"), w.volume("more"))
		time.Sleep(5 * time.Second)
		if p := w.podNamed("p"); p.Status.Phase != corev1.PodSucceeded {
			t.Errorf("its pod: %+v", p.Status)
		}

		w.deleteClaim("first")
		if pv := w.volume("small"); pv.Status.Phase != corev1.VolumeReleased {
			t.Errorf("a volume that is retained: %+v", pv.Status)
		}
		lost := w.volume("large")
		lost.Finalizers = nil
		w.Write(func(tx *store.Tx) error { tx.Delete(objects.Key(objects.Volumes, lost)); return nil })
		if got := w.claim("named"); got.Status.Phase != corev1.ClaimLost || !strings.Contains(w.reasons("named"), "ClaimLost") {
			t.Errorf("a claim without its volume: %+v", got.Status)
		}
		if len(d.volumes()) > 0 {
			t.Errorf("volumes were created: %v", d.volumes())
		}
	})
}

func TestOnePodAtATime(t *testing.T) {
	withClaims(t, func(w *world, _ *disk) {
		w.newClaim("data", "local", func(c *corev1.PersistentVolumeClaim) {
			c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
		})
		w.newPod("a", "10s", using("data"))
		w.newPod("b", "10s", using("data"))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		first, second := "a", "b"
		if w.podNamed("a").Spec.NodeName == "" {
			first, second = second, first
		}
		if got := w.waits(second); !strings.Contains(got, "ReadWriteOncePod access mode already in-use by another pod") {
			t.Errorf("the second pod waits for: %q", got)
		}
		w.Stop()
		w.Start()
		time.Sleep(time.Second)
		if p := w.podNamed(second); p.Spec.NodeName != "" {
			t.Error("after a restart both pods run")
		}
		time.Sleep(30 * time.Second)
		for _, name := range []string{first, second} {
			if p := w.podNamed(name); !podspec.Ended(p) {
				t.Errorf("%s: %+v", name, p.Status)
			}
		}
	})
}

// Nobody looks for room for a pod whose manifest names the node; it waits for its claims all the same.
func TestPodsThatNameTheNodeWaitForClaims(t *testing.T) {
	withClaims(t, func(w *world, d *disk) {
		d.slow = 10 * time.Second
		w.newClaim("data", "", func(c *corev1.PersistentVolumeClaim) {
			c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
		})
		w.newPodFor("test", "a", "10s", using("data"))
		w.newPodFor("test", "b", "10s", using("data"))
		time.Sleep(5 * time.Second)
		for _, name := range []string{"a", "b"} {
			if p := w.podNamed(name); p.Status.Phase != corev1.PodPending || p.Status.StartTime != nil {
				t.Errorf("%s is %s before its volume is there", name, p.Status.Phase)
			}
		}
		time.Sleep(10 * time.Second)
		if a, b := w.podNamed("a").Status.Phase, w.podNamed("b").Status.Phase; a == b {
			t.Errorf("of two pods of a claim for one pod both are %s", a)
		}
		time.Sleep(time.Minute)
		for _, name := range []string{"a", "b"} {
			if p := w.podNamed(name); p.Status.Phase != corev1.PodSucceeded {
				t.Errorf("%s is %s in the end", name, p.Status.Phase)
			}
		}
	})
}

func TestClaimsOfAPodsOwn(t *testing.T) {
	withClaims(t, func(w *world, d *disk) {
		w.newClaim("taken-scratch", "local")
		own := corev1.Volume{Name: "scratch"}
		own.Ephemeral = &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{}}
		own.Ephemeral.VolumeClaimTemplate.Labels = map[string]string{"a": "b"}
		own.Ephemeral.VolumeClaimTemplate.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		own.Ephemeral.VolumeClaimTemplate.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		w.newPod("mine", "1s", own)
		time.Sleep(5 * time.Second)
		obj, p := w.claim("mine-scratch"), w.podNamed("mine")
		if p.Status.Phase != corev1.PodSucceeded || obj == nil || !metav1.IsControlledBy(obj, p) || obj.Labels["a"] != "b" {
			t.Fatalf("the pod %+v, its claim %+v", p.Status, obj)
		}
		w.Write(func(tx *store.Tx) error { tx.Delete(objects.Key(objects.Pods, p)); return nil })
		time.Sleep(5 * time.Second)
		if w.claim("mine-scratch") != nil || len(d.volumes()) > 0 {
			t.Errorf("after the pod: claim %+v, data %v", w.claim("mine-scratch"), d.volumes())
		}
		w.newPod("taken", "1s", own)
		if got := w.waits("taken"); got != "PVC default/taken-scratch was not created for pod default/taken (pod is not owner)" {
			t.Errorf("a pod whose claim is another's waits for: %q", got)
		}
	})
}

// A Job that is deleted in the foreground waits for its pods, and they wait for the claims that were made for them.
func TestClaimsOfAPodsOwnGoInTheForeground(t *testing.T) {
	for rule, run := range map[string]string{"after their end": "1s", "while they run": "1h"} {
		t.Run(rule, func(t *testing.T) {
			withClaims(t, func(w *world, d *disk) {
				own := corev1.Volume{Name: "scratch"}
				own.Ephemeral = &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{}}
				own.Ephemeral.VolumeClaimTemplate.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
				own.Ephemeral.VolumeClaimTemplate.Spec.Resources.Requests = corev1.ResourceList{
					corev1.ResourceStorage: resource.MustParse("1Gi"),
				}
				w.newPod("mine", run, own)
				time.Sleep(5 * time.Second)
				p := w.podNamed("mine")
				if len(d.volumes()) != 1 {
					t.Fatalf("the pod %+v, data %v", p.Status, d.volumes())
				}
				storage.SetPropagation(p, metav1.DeletePropagationForeground)
				storage.MarkDeleted(p, time.Now(), 0)
				w.Put(objects.Key(objects.Pods, p), p)
				time.Sleep(5 * time.Second)
				if left := w.Pods(); w.claim("mine-scratch") != nil || len(left) > 0 || len(d.volumes()) > 0 {
					t.Errorf("claim %+v, pods %+v, data %v are left", w.claim("mine-scratch"), left, d.volumes())
				}
			})
		})
	}
}

func TestAClaimGrows(t *testing.T) {
	withClaims(t, func(w *world, d *disk) {
		w.newClaim("data", "local")
		w.newPod("p", "1h", using("data"))
		obj := w.claim("data")
		d.set(provision.Expand, errors.New("no space"))
		obj.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("3Gi")
		w.Put(objects.Key(objects.Claims, obj), obj)
		if got := w.claim("data"); len(got.Status.Conditions) != 1 || got.Status.Conditions[0].Message != "no space" ||
			got.Status.Capacity.Storage().String() != "1Gi" {
			t.Errorf("an expansion that fails: %+v", got.Status)
		}
		failed := w.claim("data").Status.Conditions[0].LastTransitionTime
		d.set(provision.Expand, errors.New("still no space"))
		time.Sleep(time.Minute)
		if got := w.claim("data").Status.Conditions; len(got) != 1 || got[0].Message != "still no space" || !got[0].LastTransitionTime.Equal(&failed) {
			t.Errorf("one that goes on failing since %v: %+v", failed, got)
		}
		d.set(provision.Expand, nil)
		w.Stop()
		w.Start()
		time.Sleep(time.Minute)
		got := w.claim("data")
		if len(got.Status.Conditions) != 0 || got.Status.Capacity.Storage().String() != "3Gi" || d.has[got.Spec.VolumeName] != 3<<30 {
			t.Errorf("an expanded claim: %+v, on the disk %v", got.Status, d.has)
		}
		if pv := w.volume(got.Spec.VolumeName); pv.Spec.Capacity.Storage().String() != "3Gi" {
			t.Errorf("its volume: %+v", pv.Spec)
		}
	})
}

func TestAnUnknownClass(t *testing.T) {
	withClaims(t, func(w *world, d *disk) {
		for _, name := range []string{"one", "two"} { // what is made for the first makes the class no better known
			w.newClaim(name, "gp2")
			w.newPod("p-"+name, "1s", using(name))
			time.Sleep(5 * time.Second)
			obj := w.claim(name)
			bound(t, obj, w.volume(obj.Spec.VolumeName))
			if got := w.reasons(name); *obj.Spec.StorageClassName != "gp2" || !strings.Contains(got, claim.UnknownStorageClass) {
				t.Errorf("class %s, events %s", *obj.Spec.StorageClassName, got)
			}
		}
		if len(d.volumes()) != 2 {
			t.Errorf("on the disk: %v", d.volumes())
		}
	})
}

func TestAVolumeOfAnotherNode(t *testing.T) {
	withClaims(t, func(w *world, _ *disk) {
		w.newVolume("there", "manual", "1Gi", func(pv *corev1.PersistentVolume) {
			pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"there"}}},
			}}}}
		})
		w.newClaim("data", "manual")
		w.newPod("p", "1s", using("data"))
		if got := w.waits("p"); got != "1 node(s) didn't match PersistentVolume's node affinity" {
			t.Errorf("its pod waits for: %q", got)
		}
	})
}
