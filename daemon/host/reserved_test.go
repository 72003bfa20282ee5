package host

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestReserved(t *testing.T) {
	list := func(cpu, memory, pids string) corev1.ResourceList {
		out := corev1.ResourceList{}
		for name, amount := range map[corev1.ResourceName]string{"cpu": cpu, "memory": memory, Pids: pids} {
			if amount != "" {
				out[name] = resource.MustParse(amount)
			}
		}
		return out
	}
	for _, c := range []struct {
		rule                  string
		named, capacity       corev1.ResourceList
		reserved, allocatable corev1.ResourceList
	}{
		{
			rule:     "by default there is some memory, and a quarter of the processes",
			capacity: list("4", "8Gi", "40000"), reserved: list("", "100Mi", "10000"),
			allocatable: list("4", "8092Mi", "30000"),
		}, {
			rule:  "what is named counts",
			named: list("500m", "1Gi", "1000"), capacity: list("4", "8Gi", "40000"),
			reserved: list("500m", "1Gi", "1000"), allocatable: list("3500m", "7Gi", "39000"),
		}, {
			rule:  "nothing may be reserved",
			named: list("", "0", "0"), capacity: list("4", "8Gi", "40000"),
			reserved: list("", "0", "0"), allocatable: list("4", "8Gi", "40000"),
		}, {
			rule:  "there is never less than nothing left",
			named: list("5", "9Gi", "50000"), capacity: list("4", "8Gi", "40000"),
			reserved: list("5", "9Gi", "50000"), allocatable: list("0", "0", "0"),
		},
	} {
		t.Run(c.rule, func(t *testing.T) {
			reserved := Reserved(c.named, c.capacity)
			same(t, "reserved", reserved, c.reserved)
			same(t, "allocatable", Allocatable(c.capacity, reserved, nil), c.allocatable)
		})
	}
	t.Run("what pods may ask for comes before it", func(t *testing.T) {
		capacity := list("4", "8Gi", "40000")
		got := Allocatable(capacity, Reserved(nil, capacity), list("2", "8Gi", ""))
		same(t, "allocatable", got, list("2", "8Gi", "30000"))
	})
}

func TestMoreThanTheMachineHasCannotBeReserved(t *testing.T) {
	capacity := corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi")}
	for named, want := range map[string]string{
		"cpu=4": "", "memory=8Gi": "",
		"cpu=4500m":    "system-reserved: cpu=4500m is more than this machine has (4)",
		"memory=100Ti": "system-reserved: memory=100Ti is more than this machine has (8Gi)",
	} {
		name, amount, _ := strings.Cut(named, "=")
		err := CheckReserved(corev1.ResourceList{corev1.ResourceName(name): resource.MustParse(amount)}, capacity)
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s: got %v, want %q", named, err, want)
		}
	}
}

func same(t *testing.T, what string, got, want corev1.ResourceList) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
	for name, amount := range want {
		if have := got[name]; have.Cmp(amount) != 0 {
			t.Errorf("%s of %s: %s, want %s", what, name, have.String(), amount.String())
		}
	}
}
