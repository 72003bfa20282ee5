package node

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/jobd/jobd/daemon/fit"
)

// TestObstacles: what is said of a pod that the machine does not take names what is wrong, and the labels that help.
func TestObstacles(t *testing.T) {
	for name, tc := range map[string]struct {
		spec    string // of the pod
		kind    fit.Kind
		message string
		labels  string
		holders string // the pods that keep it away
	}{
		"a selector":    {`{nodeSelector: {disk: ssd}}`, fit.WrongSelector, "the label disk=ssd, which the node does not have", "disk=ssd", ""},
		"another value": {`{nodeSelector: {zone: b}}`, fit.WrongSelector, `zone=b, and the node's label is "a"`, "zone=b", ""},
		"another host":  {`{nodeSelector: {kubernetes.io/hostname: other}}`, fit.WrongSelector, "kubernetes.io/hostname=other", "", ""},
		"a taint":       {`{nodeSelector: {tainted: "yes"}}`, fit.Tainted, "gpu=only:NoSchedule", "", ""},
		"cordoned":      {`{nodeSelector: {cordoned: "yes"}}`, fit.Cordoned, "spec.unschedulable", "", ""},
		"affinity, In": {
			affine(`{key: disk, operator: In, values: [ssd, nvme]}`), fit.WrongAffinity, "disk in (ssd, nvme), which the node does not have",
			"disk=ssd", "",
		},
		"affinity, Exists":  {affine(`{key: disk, operator: Exists}`), fit.WrongAffinity, "asks for disk, which the node does not have", "disk=true", ""},
		"affinity, NotIn":   {affine(`{key: zone, operator: NotIn, values: [a]}`), fit.WrongAffinity, "zone not in (a), and the node has zone=a", "", ""},
		"affinity, no such": {affine(`{key: zone, operator: DoesNotExist}`), fit.WrongAffinity, "no zone, and the node has zone=a", "", ""},
		"affinity, Gt":      {affine(`{key: cores, operator: Gt, values: ["8"]}`), fit.WrongAffinity, "cores > 8, and the node has cores=4", "", ""},
		"affinity, Lt":      {affine(`{key: cores, operator: Lt, values: ["2"]}`), fit.WrongAffinity, "cores < 2, and the node has cores=4", "", ""},
		"one expression of two": {
			affine(`{key: zone, operator: In, values: [a]}, {key: disk, operator: In, values: [ssd]}`), fit.WrongAffinity,
			"nodeSelectorTerms[0]: it asks for disk in (ssd), which the node does not have", "disk=ssd", "",
		},
		"two terms": {`{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
			{matchExpressions: [{key: zone, operator: DoesNotExist}]}, {matchFields: [{key: metadata.name, operator: In, values: [other]}]}]}}}}`,
			fit.WrongAffinity, "nodeSelectorTerms[1]: it asks for metadata.name in (other), and the node has metadata.name=here", "", ""},
		"an empty term": {
			`{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{}]}}}}`, fit.WrongAffinity,
			"matches no node", "", "",
		},
		"company": {`{affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, labelSelector: {matchLabels: {app: db}}}]}}}`,
			fit.LacksCompany, "a pod that matches app=db in n, and none is on this machine", "", ""},
		"no company": {`{affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, labelSelector: {matchLabels: {app: loud}}}]}}}`,
			fit.UnwantedCompany, "no pod that matches app=loud in n", "", "loud"},
		"others want none": {`{nodeSelector: {}}`, fit.UnwantedByOthers, "against pods that match app=new in n", "", "shy"},
		"spread": {`{topologySpreadConstraints: [{topologyKey: zone, maxSkew: 1, minDomains: 2, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: loud}}}]}`,
			fit.BadlySpread, "maxSkew 1", "", ""},
		"no place": {`{topologySpreadConstraints: [{topologyKey: rack, maxSkew: 1, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}]}`,
			fit.LacksTopology, "the label rack, which the node does not have", "rack=VALUE", ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := New(10, nil)
			object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "here", Labels: map[string]string{
				"kubernetes.io/hostname": "here", "zone": "a", "cores": "4",
			}}}
			switch tc.kind {
			case fit.Tainted:
				object.Labels["tainted"] = "yes"
				object.Spec.Taints = []corev1.Taint{{Key: "gpu", Value: "only", Effect: corev1.TaintEffectNoSchedule}}
			case fit.Cordoned:
				object.Labels["cordoned"] = "yes"
				object.Spec.Unschedulable = true
			}
			n.Describe(object)
			on := func(name, app, spec string) *corev1.Pod {
				p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "n", UID: types.UID(name), Labels: map[string]string{"app": app}}}
				if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
					t.Fatal(err)
				}
				return p
			}
			n.Bound(PodOf(on("loud", "loud", `{}`)), time.Time{}, false)
			n.Bound(PodOf(on("loud2", "loud", `{}`)), time.Time{}, false)
			if tc.kind == fit.UnwantedByOthers {
				n.Bound(PodOf(on("shy", "shy", `{affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
					{topologyKey: zone, labelSelector: {matchLabels: {app: new}}}]}}}`)), time.Time{}, false)
			}
			n.Wait(PodOf(on("new", "new", tc.spec)), false)
			if step, ok := n.Next(nil); ok {
				t.Fatalf("it does not wait: %+v", step)
			}
			r, _ := n.Room("new")
			all := append(r.Unfit, r.Apart...)
			if len(all) != 1 || r.Clear() || r.Node != "here" {
				t.Fatalf("%+v", r)
			}
			if o := all[0]; o.Kind != tc.kind || !strings.Contains(o.Message, tc.message) || strings.Join(o.Labels, " ") != tc.labels || o.Brief == "" {
				t.Errorf("%+v", o)
			}
			var holders []string
			for _, h := range r.Holders {
				holders = append(holders, string(h.UID))
			}
			if got := fmt.Sprint(holders); tc.holders != "" && !strings.Contains(got, tc.holders) ||
				tc.holders == "" && tc.kind != fit.BadlySpread && len(holders) > 0 {
				t.Errorf("kept away by %s", got)
			}
		})
	}
}

// affine is a spec with a required node affinity of one term.
func affine(expressions string) string {
	return `{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [` + expressions + `]}]}}}}`
}
