package runas

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

func annotated(value string) *corev1.Namespace {
	ns := &corev1.Namespace{}
	ns.Annotations = map[string]string{Annotation: value}
	return ns
}

func TestOf(t *testing.T) {
	for value, want := range map[string]string{
		"1000:1000":               "",
		"1000:100,27,44":          "",
		"4294967294:0":            "",
		"":                        `"" is not of the form`,
		"1000":                    `"1000" is not of the form`,
		"0:0":                     "cannot be made to run as root",
		"00:5":                    "cannot be made to run as root",
		"1000:":                   `"" is not the number`,
		"-1:5":                    `"-1" is not the number`,
		"4294967295:5":            `"4294967295" is not the number`,
		"4294967296:5":            `"4294967296" is not the number`,
		"1000:5,4294967295":       `"4294967295" is not the number`,
		"1000:5, 6":               `" 6" is not the number`,
		"1000:5:6":                `"5:6" is not the number`,
		"alice:users":             `"alice" is not the number`,
		"0x3e8:1":                 `"0x3e8" is not the number`,
		strings.Repeat("1", 5000): "is not of the form",
	} {
		id, err := Of(annotated(value))
		errs := Validate(annotated(value))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) || (len(errs) == 0) != (err == nil) {
			t.Errorf("%.20q: %v, %v", value, err, errs)
		}
		if err == nil && id.String() != value {
			t.Errorf("%q is written as %q", value, id)
		}
	}
	if id, err := Of(&corev1.Namespace{}); id != nil || err != nil {
		t.Errorf("without the annotation: %v, %v", id, err)
	}
}

// What a pod is filled with is what is asked of it, and is filled in once.
func TestFill(t *testing.T) {
	id := &Identity{UID: 1000, Groups: []uint32{100, 27, 44}}
	spec := corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "i", SecurityContext: &corev1.SecurityContext{Capabilities: &corev1.Capabilities{}}}},
		Containers:     []corev1.Container{{Name: "c"}},
		EphemeralContainers: []corev1.EphemeralContainer{
			{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e"}},
		},
	}
	if errs := id.Check(&spec, field.NewPath("spec"), true); len(errs) == 0 {
		t.Error("a pod that says nothing is allowed")
	}
	if errs := id.Check(&corev1.PodSpec{Containers: spec.Containers}, field.NewPath("spec"), false); len(errs) > 0 {
		t.Errorf("a template that says nothing is refused: %v", errs)
	}
	id.Fill(&spec)
	if errs := id.Check(&spec, field.NewPath("spec"), true); len(errs) > 0 {
		t.Errorf("what was filled in is refused: %v", errs)
	}
	c := spec.SecurityContext
	if *c.RunAsUser != 1000 || *c.RunAsGroup != 100 || *c.FSGroup != 100 || !reflect.DeepEqual(c.SupplementalGroups, []int64{27, 44}) ||
		*c.SupplementalGroupsPolicy != corev1.SupplementalGroupsPolicyStrict || spec.HostUsers != nil {
		t.Errorf("the pod has %+v", c)
	}
	for _, c := range []*corev1.SecurityContext{
		spec.InitContainers[0].SecurityContext, spec.Containers[0].SecurityContext, spec.EphemeralContainers[0].SecurityContext,
	} {
		if c == nil || ptr.Deref(c.AllowPrivilegeEscalation, true) {
			t.Errorf("a container may get more rights: %+v", c)
		}
	}
	again := spec.DeepCopy()
	if id.Fill(again); !reflect.DeepEqual(again, &spec) {
		t.Error("what was filled in is filled in once more")
	}
	own := corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{RunAsGroup: ptr.To[int64](44), SupplementalGroups: []int64{}}}
	if id.Fill(&own); *own.SecurityContext.RunAsGroup != 44 || len(own.SecurityContext.SupplementalGroups) != 0 {
		t.Errorf("the pod's own choice is lost: %+v", own.SecurityContext)
	}
	large := corev1.PodSpec{}
	if (&Identity{UID: 1234567, Groups: []uint32{100}}).Fill(&large); !ptr.Deref(large.HostUsers, false) {
		t.Error("a user who is in no user namespace of a pod is to be in one")
	}
}

func TestCheckEphemeral(t *testing.T) {
	id := &Identity{UID: 1000, Groups: []uint32{100}}
	before := corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "old"}}
	next := corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "new"}}
	spec := corev1.PodSpec{EphemeralContainers: []corev1.EphemeralContainer{before, next}} // of a pod that says nothing
	old := []corev1.EphemeralContainer{before}
	const want = "spec.ephemeralContainers[1].securityContext.runAsUser"
	if errs := id.CheckEphemeral(&spec, old, field.NewPath("spec")); len(errs) == 0 || errs[0].Field != want {
		t.Errorf("%v, want %s", errs, want)
	}
	id.FillEphemeral(&spec, old)
	if spec.EphemeralContainers[0].SecurityContext != nil {
		t.Error("what was there before is changed")
	}
	if errs := id.CheckEphemeral(&spec, old, field.NewPath("spec")); len(errs) > 0 {
		t.Error(errs)
	}
}

// What a user mounts in the home, root would mount in each pod that asks for it: a thousand file systems in hundreds of pods are all that
// the kernel has room for.
func TestMountsDoNotSpread(t *testing.T) {
	id := &Identity{UID: 1000, Groups: []uint32{100}}
	for mode, ok := range map[corev1.MountPropagationMode]bool{
		corev1.MountPropagationNone: true, corev1.MountPropagationHostToContainer: false, corev1.MountPropagationBidirectional: false,
	} {
		spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "c", VolumeMounts: []corev1.VolumeMount{
			{Name: "a", MountPath: "/a"}, {Name: "h", MountPath: "/h", MountPropagation: &mode},
		}}}}
		errs := id.Check(&spec, field.NewPath("spec"), false)
		const want = "spec.containers[0].volumeMounts[1].mountPropagation"
		if (len(errs) == 0) != ok || !ok && errs[0].Field != want {
			t.Errorf("%s: %v", mode, errs)
		}
	}
}
