package disk

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/jobd/jobd/daemon/eviction"
)

func TestLimitsOfLocalStorage(t *testing.T) {
	const two = `{
		initContainers: [{name: i, resources: {limits: {ephemeral-storage: 1Ki}}}],
		containers: [
			{name: a, resources: {limits: {ephemeral-storage: 2Ki}}},
			{name: b, resources: {limits: {ephemeral-storage: 3Ki}}},
		],
	}`
	for _, tc := range []struct {
		name, spec string
		containers map[string]int64 // bytes
		volumes    int64
		want       string
	}{
		{"none is no limit", `containers: [{name: a}]`, map[string]int64{"a": 1 << 40}, 1 << 40, ""},
		{"to the last byte", two, map[string]int64{"a": 2048, "b": 3072}, 0, ""},
		{"each container has its own", two, map[string]int64{"a": 2049}, 0,
			`Container a exceeded its local ephemeral storage limit "2Ki". `},
		{"an init container too", two, map[string]int64{"i": 1025}, 0,
			`Container i exceeded its local ephemeral storage limit "1Ki". `},
		{"volumes count for the pod", two, map[string]int64{"a": 100}, 5100,
			`Pod ephemeral local storage usage exceeds the total limit of containers 5Ki. `},
		{"so do containers without a limit",
			`containers: [{name: a, resources: {limits: {ephemeral-storage: 2Ki}}}, {name: b}]`, map[string]int64{"b": 2049}, 0,
			`Pod ephemeral local storage usage exceeds the total limit of containers 2Ki. `},
	} {
		p := &corev1.Pod{}
		if err := yaml.UnmarshalStrict([]byte(tc.spec), &p.Spec); err != nil {
			t.Fatal(err)
		}
		used := map[string]eviction.Size{}
		for name, bytes := range tc.containers {
			used[name] = eviction.Size{Bytes: bytes}
		}
		if got := overStorageLimit(p, used, eviction.Size{Bytes: tc.volumes}); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// A pod keeps no more than it requests.
func TestOverKept(t *testing.T) {
	for _, tc := range []struct {
		name, spec string
		container  int64
		volumes    int64
		over       bool
	}{
		{
			"to the last byte",
			`containers: [{name: a, resources: {requests: {ephemeral-storage: 2Ki}}}, {name: b, resources: {requests: {ephemeral-storage: 1Ki}}}]`,
			2048, 1024, false,
		},
		{"and not more", `containers: [{name: a, resources: {requests: {ephemeral-storage: 2Ki}}}]`, 2048, 1, true},
		{"nothing of nothing", `containers: [{name: a}]`, 0, 0, false},
		{"without a request", `containers: [{name: a}]`, 1, 0, true},
	} {
		p := &corev1.Pod{}
		if err := yaml.UnmarshalStrict([]byte(tc.spec), &p.Spec); err != nil {
			t.Fatal(err)
		}
		left := eviction.Use{Containers: map[string]eviction.Size{"a": {Bytes: tc.container}}, Volumes: eviction.Size{Bytes: tc.volumes}}
		if over := overKept(p, left); (over != "") != tc.over {
			t.Errorf("%s: %q", tc.name, over)
		}
	}
}
