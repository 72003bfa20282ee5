package runtimeclass

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/yaml"
)

const unready = `{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300}, ` +
	`{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 300}`

func TestAPodGetsWhatItsClassHas(t *testing.T) {
	for _, tc := range []struct{ name, class, pod, want, refusal string }{
		{name: "no class", pod: `{}`, want: `{}`},
		{name: "no class, and an overhead", pod: `{overhead: {cpu: 1}}`,
			refusal: "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"},
		{name: "a class that is not there", pod: `{runtimeClassName: nope}`, refusal: `pod rejected: RuntimeClass "nope" not found`},
		{name: "an empty name", pod: `{runtimeClassName: ""}`, refusal: `pod rejected: RuntimeClass "" not found`},
		{name: "a class with nothing", class: `{handler: a}`, pod: `{runtimeClassName: sandboxed}`, want: `{runtimeClassName: sandboxed}`},
		{name: "an overhead that the class does not have", class: `{handler: a}`, pod: `{runtimeClassName: sandboxed, overhead: {cpu: 1}}`,
			refusal: "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"},
		{name: "the class's overhead", class: `{handler: a, overhead: {podFixed: {cpu: 1, memory: 1Mi}}}`, pod: `{runtimeClassName: sandboxed}`,
			want: `{runtimeClassName: sandboxed, overhead: {cpu: 1, memory: 1Mi}}`},
		{name: "the same overhead in other words", class: `{handler: a, overhead: {podFixed: {cpu: 1}}}`,
			pod: `{runtimeClassName: sandboxed, overhead: {cpu: 1000m}}`, want: `{runtimeClassName: sandboxed, overhead: {cpu: 1}}`},
		{name: "another overhead", class: `{handler: a, overhead: {podFixed: {cpu: 1}}}`, pod: `{runtimeClassName: sandboxed, overhead: {cpu: 2}}`,
			refusal: "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"},
		{name: "a selector of nodes", class: `{handler: a, scheduling: {nodeSelector: {a: b, c: d}}}`,
			pod:  `{runtimeClassName: sandboxed, nodeSelector: {a: b, e: f}}`,
			want: `{runtimeClassName: sandboxed, nodeSelector: {a: b, c: d, e: f}, tolerations: [` + unready + `]}`},
		{name: "another selector of nodes", class: `{handler: a, scheduling: {nodeSelector: {a: b}}}`,
			pod:     `{runtimeClassName: sandboxed, nodeSelector: {a: c}}`,
			refusal: "conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = c"},
		{name: "tolerations", class: `{handler: a, scheduling: {tolerations: [{key: a, operator: Exists, effect: NoSchedule}]}}`,
			pod:  `{runtimeClassName: sandboxed, tolerations: [{key: b, operator: Equal, value: c}]}`,
			want: `{runtimeClassName: sandboxed, tolerations: [{key: b, operator: Equal, value: c}, ` + unready + `, {key: a, operator: Exists, effect: NoSchedule}]}`},
		{name: "a toleration that covers the pod's", class: `{handler: a, scheduling: {tolerations: [{key: a, operator: Exists}]}}`,
			pod:  `{runtimeClassName: sandboxed, tolerations: [{key: a, operator: Equal, value: c, effect: NoSchedule}]}`,
			want: `{runtimeClassName: sandboxed, tolerations: [` + unready + `, {key: a, operator: Exists}]}`},
		{name: "a toleration of everything", class: `{handler: a, scheduling: {tolerations: [{operator: Exists}]}}`, pod: `{runtimeClassName: sandboxed}`,
			want: `{runtimeClassName: sandboxed, tolerations: [{operator: Exists}]}`},
		{name: "a toleration that the pod has", class: `{handler: a, scheduling: {tolerations: [{key: a, operator: Exists}]}}`,
			pod:  `{runtimeClassName: sandboxed, tolerations: [{key: a, operator: Exists}]}`,
			want: `{runtimeClassName: sandboxed, tolerations: [{key: a, operator: Exists}, ` + unready + `]}`},
		{name: "a toleration for a shorter time than the pod's",
			class: `{handler: a, scheduling: {tolerations: [{key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 5}]}}`,
			pod:   `{runtimeClassName: sandboxed, tolerations: [{key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 6}]}`,
			want:  `{runtimeClassName: sandboxed, tolerations: [{key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 6}, ` + unready + `]}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, want := spec(t, tc.pod), spec(t, tc.want)
			err := SetPodRuntimeClass(got, func(name string) (*nodev1.RuntimeClass, error) {
				if tc.class == "" || name != "sandboxed" {
					return nil, nil
				}
				return class(t, tc.class), nil
			})
			if tc.refusal != "" {
				if err == nil || err.Error() != tc.refusal {
					t.Fatalf("got %v, want %s", err, tc.refusal)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !equality.Semantic.DeepEqual(want, got) {
				t.Error(cmp.Diff(want, got))
			}
		})
	}
}

func TestAClassThatCannotBeReadIsNoClassThatIsNotThere(t *testing.T) {
	failed := errors.New("no")
	if err := SetPodRuntimeClass(spec(t, `{runtimeClassName: a}`), func(string) (*nodev1.RuntimeClass, error) { return nil, failed }); err != failed {
		t.Error(err)
	}
}

func spec(t *testing.T, manifest string) *corev1.PodSpec {
	t.Helper()
	s := &corev1.PodSpec{}
	if err := yaml.UnmarshalStrict([]byte(manifest), s); err != nil {
		t.Fatal(err)
	}
	return s
}
