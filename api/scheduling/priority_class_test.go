package scheduling

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func class(name string, value int32) *schedulingv1.PriorityClass {
	pc := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"}, Value: value}
	setPriorityClassDefaults(pc)
	return pc
}

func TestPriorityClasses(t *testing.T) {
	for _, tc := range []struct {
		name  string
		class *schedulingv1.PriorityClass
		want  string
	}{
		{"the highest that a user may give", class("a", 1_000_000_000), "[]"},
		{"a higher one", class("a", 1_000_000_001), "[value: Forbidden: maximum allowed value of a user defined priority is 1000000000]"},
		{"a negative one", class("a", -7), "[]"},
		{"a built-in one", class("system-node-critical", 2000001000), "[]"},
		{"a built-in one of another value", class("system-node-critical", 7), "error: value of system-node-critical PriorityClass must be 2000001000"},
		{
			"a name that is reserved", class("system-mine", 7),
			"priority class names with 'system-' prefix are reserved for system use only. error: system-mine is not a known system priority class",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := fmt.Sprint(validatePriorityClass(tc.class)); !strings.Contains(got, tc.want) {
				t.Error(got)
			}
		})
	}
	if got := fmt.Sprint(validatePriorityClassUpdate(class("a", 2), class("a", 1))); got != "[value: Forbidden: may not be changed in an update.]" {
		t.Error(got)
	}
}

func TestPriorityOfAPod(t *testing.T) {
	normal := class("normal", 10)
	normal.GlobalDefault = true
	classes := append(Builtin(), class("high", 100), normal)
	for _, tc := range []struct {
		name string
		spec corev1.PodSpec
		all  []*schedulingv1.PriorityClass
		want string
	}{
		{"that of its class", corev1.PodSpec{PriorityClassName: "high"}, classes, "high 100"},
		{"that of the default class", corev1.PodSpec{}, classes, "normal 10"},
		{"none without a default class", corev1.PodSpec{}, Builtin(), " 0"},
		{"the same as said by hand", corev1.PodSpec{Priority: ptr.To[int32](100), PriorityClassName: "high"}, classes, "high 100"},
		{
			"another than said by hand", corev1.PodSpec{Priority: ptr.To[int32](7)}, classes,
			"the integer value of priority (7) must not be provided in pod spec; priority admission controller computed 10 from the given PriorityClass name",
		},
		{"a class that is not there", corev1.PodSpec{PriorityClassName: "mine"}, classes, "no PriorityClass with name mine was found"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := ""
			if err := SetPodPriority(&tc.spec, tc.all); err != nil {
				got = err.Error()
			} else {
				got = fmt.Sprint(tc.spec.PriorityClassName, " ", *tc.spec.Priority)
			}
			if got != tc.want {
				t.Error(got)
			}
		})
	}
}
