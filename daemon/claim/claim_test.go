package claim

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/storageclass"
)

type (
	pvc = corev1.PersistentVolumeClaim
	pv  = corev1.PersistentVolume
)

func newClaim(change ...func(*pvc)) *pvc {
	c := &pvc{ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: "default", UID: "c"}}
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	for _, f := range change {
		f(c)
	}
	return c
}

func of(class string) func(*pvc) { return func(c *pvc) { c.Spec.StorageClassName = &class } }

func newVolume(name, class, size string, change ...func(*pv)) *pv {
	v := &pv{ObjectMeta: metav1.ObjectMeta{Name: name}}
	v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	v.Spec.StorageClassName, v.Status.Phase = class, corev1.VolumeAvailable
	for _, f := range change {
		f(v)
	}
	return v
}

func newClass(name string, change ...func(*storagev1.StorageClass)) *storagev1.StorageClass {
	c := storageclass.Local()
	c.Name, c.Annotations = name, nil
	for _, f := range change {
		f(c)
	}
	return c
}

func immediate(c *storagev1.StorageClass) {
	c.VolumeBindingMode = ptr.To(storagev1.VolumeBindingImmediate)
}

func TestWhatAClaimNeeds(t *testing.T) {
	elsewhere := func(v *pv) {
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "here", Operator: corev1.NodeSelectorOpExists}},
		}}}}
	}
	classes := []*storagev1.StorageClass{
		storageclass.Local(), newClass("now", immediate),
		newClass("theirs", immediate, func(c *storagev1.StorageClass) { c.Provisioner = "example.com/disks" }),
		newClass("static", func(c *storagev1.StorageClass) { c.Provisioner = storageclass.NoProvisioner }),
	}
	free := []*pv{
		newVolume("large", "manual", "10Gi"), newVolume("small", "manual", "2Gi"), newVolume("far", "static", "2Gi", elsewhere),
		newVolume("shared", "manual", "1Gi", func(v *pv) { v.Spec.AccessModes[0] = corev1.ReadOnlyMany }),
		newVolume("reserved", "manual", "3Gi", func(v *pv) {
			v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "theirs"}
		}),
	}
	for name, c := range map[string]struct {
		claim    *pvc
		consumer bool
		waits    bool // World.UnknownWaits
		want     string
	}{
		"the default class":                {newClaim(), false, false, "default local"},
		"a pod, first":                     {newClaim(of("local")), false, false, WaitForFirstConsumer},
		"a volume for its pod":             {newClaim(of("local")), true, false, "provision"},
		"a volume at once":                 {newClaim(of("now")), false, false, "provision"},
		"the smallest that fits":           {newClaim(of("manual")), false, false, "bind small"},
		"what is kept for it":              {newClaim(of("manual"), func(c *pvc) { c.Name = "theirs" }), false, false, "bind reserved"},
		"one of no class":                  {newClaim(of("")), false, false, FailedBinding},
		"one of another provisioner":       {newClaim(of("theirs")), false, false, ExternalProvisioning},
		"one for this node":                {newClaim(of("static")), true, false, FailedBinding},
		"another class for an unknown one": {newClaim(of("gp2")), true, false, "provision " + UnknownStorageClass},
		"a class that is to come":          {newClaim(of("gp2")), true, true, ProvisioningFailed},
		"one that is marked":               {newClaim(of("now"), func(c *pvc) { c.Spec.Selector = &metav1.LabelSelector{} }), true, false, ProvisioningFailed},
		"one that is not there":            {newClaim(of("manual"), func(c *pvc) { c.Spec.VolumeName = "missing" }), false, false, FailedBinding},
	} {
		w := &World{
			Classes: classes, Free: free, ClassesOfVolumes: map[string]int{"manual": 4, "static": 1}, UnknownWaits: c.waits,
		}
		d := Next(c.claim, nil, w, c.consumer)
		var got []string
		switch {
		case d.Default != "":
			got = append(got, "default", d.Default)
		case d.Bind != nil:
			got = append(got, "bind", d.Bind.Name)
		case d.Provision:
			got = append(got, "provision")
		}
		if d.Event != nil {
			got = append(got, d.Event.Reason)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}

func TestVolumesThatAClaimNames(t *testing.T) {
	for name, c := range map[string]struct {
		volume *pv
		want   string // empty: it is bound
	}{
		"one that fits":         {newVolume("v", "manual", "1Gi"), ""},
		"one that is too small": {newVolume("v", "manual", "1Mi"), "requested PV is too small"},
		"one of another class":  {newVolume("v", "other", "1Gi"), "storageClassName does not match"},
		"one of another mode": {
			newVolume("v", "manual", "1Gi", func(v *pv) { v.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) }),
			"incompatible volumeMode",
		},
		"one for other access": {newVolume("v", "manual", "1Gi", func(v *pv) { v.Spec.AccessModes[0] = corev1.ReadOnlyMany }), "incompatible accessMode"},
		"one that another claim has": {
			newVolume("v", "manual", "1Gi", func(v *pv) { v.Spec.ClaimRef = &corev1.ObjectReference{Name: "other"} }),
			"already bound to a different claim.",
		},
	} {
		claim := newClaim(of("manual"), func(c *pvc) { c.Spec.VolumeName = "v" })
		d := Next(claim, c.volume, &World{}, false)
		if (d.Bind != nil) != (c.want == "") || d.Event != nil && !strings.HasSuffix(d.Event.Message, c.want) {
			t.Errorf("%s: %+v, %+v", name, d, d.Event)
		}
	}
}

func TestFates(t *testing.T) {
	bound := func(v *pv) {
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "data", UID: "c"}
	}
	ours := func(v *pv) {
		v.Annotations = map[string]string{"pv.kubernetes.io/provisioned-by": core.LocalProvisioner}
	}
	deleted := func(v *pv) { v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete }
	owner := newClaim(func(c *pvc) { c.Spec.VolumeName = "v" })
	for name, c := range map[string]struct {
		volume *pv
		owner  *pvc
		phase  corev1.PersistentVolumePhase
		delete bool
	}{
		"nobody's":           {newVolume("v", "", "1Gi"), nil, corev1.VolumeAvailable, false},
		"its claim is there": {newVolume("v", "", "1Gi", bound, ours, deleted), owner, corev1.VolumeBound, false},
		"its claim is gone":  {newVolume("v", "", "1Gi", bound, ours, deleted), nil, corev1.VolumeReleased, true},
		"another claim has that name": {
			newVolume("v", "", "1Gi", bound, ours, deleted), newClaim(func(c *pvc) { c.UID = "d" }), corev1.VolumeReleased, true,
		},
		"it is retained":                   {newVolume("v", "", "1Gi", bound, ours), nil, corev1.VolumeReleased, false},
		"an administrator's is not erased": {newVolume("v", "", "1Gi", bound, deleted), nil, corev1.VolumeFailed, false},
	} {
		if got := FateOf(c.volume, c.owner); got.Phase != c.phase || got.Delete != c.delete {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestWhatPodsWaitFor(t *testing.T) {
	const me = "me"
	for name, c := range map[string]struct {
		use   Use
		state *State
		want  string // "-": it does not wait
	}{
		"a claim that is missing": {Use{Name: "x"}, nil, `persistentvolumeclaim "x" not found`},
		"one to be made for it":   {Use{Name: "x", Own: true}, nil, `waiting for ephemeral volume controller to create the persistentvolumeclaim "x"`},
		"one made for another pod": {
			Use{Name: "x", Own: true}, &State{Bound: true, Owner: "other"},
			"PVC ns/x was not created for pod ns/p (pod is not owner)",
		},
		"one that is not bound":     {Use{Name: "x"}, &State{}, "pod has unbound immediate PersistentVolumeClaims"},
		"a volume that is made":     {Use{Name: "x"}, &State{Delays: true}, ""},
		"one that cannot be made":   {Use{Name: "x"}, &State{Delays: true, Why: "no space"}, "no space"},
		"one that is lost":          {Use{Name: "x"}, &State{Lost: true, Volume: "v"}, `persistentvolumeclaim "x" bound to non-existent persistentvolume "v"`},
		"one that is being deleted": {Use{Name: "x"}, &State{Bound: true, Deleting: true}, `persistentvolumeclaim "x" is being deleted`},
		"one of its own":            {Use{Name: "x"}, &State{Bound: true, OnePod: true, User: me}, "-"},
		"one that is ready":         {Use{Name: "x"}, &State{Bound: true}, "-"},
	} {
		why, waits := Waits(me, "p", c.use, "ns", c.state)
		if waits == (c.want == "-") || waits && why != c.want {
			t.Errorf("%s: %v %q", name, waits, why)
		}
	}
}
