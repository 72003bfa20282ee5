package node

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

// readPod returns a pod with metadata and a spec given in YAML.
func readPod(t *testing.T, content string) *Pod {
	t.Helper()
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(content), pod); err != nil {
		t.Fatal(err)
	}
	if pod.Namespace == "" {
		pod.Namespace = "ns"
	}
	pod.UID = types.UID(pod.Name)
	return PodOf(pod)
}

func TestWhyPodsStayApart(t *testing.T) {
	const (
		hopeless = ". preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
		nobody   = ". preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
		here     = "topologyKey: kubernetes.io/hostname"
		required = "requiredDuringSchedulingIgnoredDuringExecution"
	)
	anti := func(term string) string {
		return `{metadata: {name: p, labels: {app: a}}, spec: {affinity: {podAntiAffinity: {` + required + `: [{` + term + `}]}}}}`
	}
	with := func(term string) string {
		return `{metadata: {name: p, labels: {app: a}}, spec: {affinity: {podAffinity: {` + required + `: [{` + term + `}]}}}}`
	}
	spread := func(constraint string) string {
		return `{metadata: {name: p, labels: {app: a}}, spec: {topologySpreadConstraints: [{whenUnsatisfiable: DoNotSchedule, ` + constraint + `}]}}`
	}
	const a, b = `{metadata: {name: x, labels: {app: a}}}`, `{metadata: {name: x, labels: {app: b}}}`
	for rule, c := range map[string]struct{ bound, pod, want string }{
		"nobody is there": {"", anti(here + `, labelSelector: {matchLabels: {app: a}}`), ""},
		"one that it does not stand": {
			a, anti(here + `, labelSelector: {matchLabels: {app: a}}`), "1 node(s) didn't match pod anti-affinity rules" + nobody,
		},
		"one that it does not mind": {b, anti(here + `, labelSelector: {matchLabels: {app: a}}`), ""},
		"one of another namespace":  {`{metadata: {name: x, namespace: other, labels: {app: a}}}`, anti(here + `, labelSelector: {}`), ""},
		"one of a named namespace": {
			`{metadata: {name: x, namespace: other, labels: {app: a}}}`, anti(here + `, labelSelector: {}, namespaces: [other]`),
			"1 node(s) didn't match pod anti-affinity rules" + nobody,
		},
		"one of a selected namespace": {
			`{metadata: {name: x, namespace: other, labels: {app: a}}}`,
			anti(here + `, labelSelector: {}, namespaceSelector: {matchLabels: {team: red}}`),
			"1 node(s) didn't match pod anti-affinity rules" + nobody,
		},
		"one of a namespace that is not": {
			`{metadata: {name: x, namespace: ns, labels: {app: a}}}`,
			anti(here + `, labelSelector: {}, namespaceSelector: {matchLabels: {team: red}}`), "",
		},
		"no selector selects nobody":           {a, anti(here), ""},
		"a node without the label is no place": {a, anti(`topologyKey: rack, labelSelector: {}`), ""},
		"one that does not stand it": {
			`{metadata: {name: x}, spec: {affinity: {podAntiAffinity: {` + required + `: [{` + here + `, labelSelector: {matchLabels: {app: a}}}]}}}}`,
			a, "",
		},
		"one that is to be there is not": {
			b, with(here + `, labelSelector: {matchLabels: {app: c}}`), "1 node(s) didn't match pod affinity rules" + hopeless,
		},
		"one that is to be there is": {b, with(here + `, labelSelector: {matchLabels: {app: b}}`), ""},
		"the first of its kind":      {b, with(here + `, labelSelector: {matchLabels: {app: a}}`), ""},
		"the first of its kind on no rack": {
			b, with(`topologyKey: rack, labelSelector: {matchLabels: {app: a}}`), "1 node(s) didn't match pod affinity rules" + hopeless,
		},
		"spread over the only place": {a, spread(`maxSkew: 1, ` + here + `, labelSelector: {matchLabels: {app: a}}`), ""},
		"spread over two": {
			a, spread(`maxSkew: 1, minDomains: 2, ` + here + `, labelSelector: {matchLabels: {app: a}}`),
			"1 node(s) didn't match pod topology spread constraints" + nobody,
		},
		"spread over two, with some skew": {a, spread(`maxSkew: 2, minDomains: 2, ` + here + `, labelSelector: {matchLabels: {app: a}}`), ""},
		"spread over racks": {
			"", spread(`maxSkew: 1, topologyKey: rack, labelSelector: {}`),
			"1 node(s) didn't match pod topology spread constraints (missing required label)" + hopeless,
		},
	} {
		t.Run(rule, func(t *testing.T) {
			n := New(10, nil)
			facing(t, n, `metadata: {labels: {kubernetes.io/hostname: here}}`)
			n.SetNamespace("other", map[string]string{"team": "red"})
			if c.bound != "" {
				n.run(readPod(t, c.bound), 0)
			}
			p := readPod(t, c.pod)
			p.UID = "p"
			if rule == "one that does not stand it" {
				c.want = "1 node(s) didn't satisfy existing pods anti-affinity rules" + nobody
			}
			n.Wait(p, false)
			want := c.want
			if want != "" {
				want = notAvailable + want
			}
			if got := n.Why("p"); got != want {
				t.Errorf("it waits because %q, want %q", got, want)
			}
			decide(n)
			if waits := n.Waiting() > 0; waits != (want != "") {
				t.Errorf("it waits: %v", waits)
			}
			n.Gone("x")
			decide(n)
			if waits := n.Waiting() > 0; waits != (n.Why("p") != "") {
				t.Errorf("it still waits for what is gone: %s", n.Why("p"))
			}
		})
	}
}

func TestAPodStartsWhenItsCompanyComesOrIsGone(t *testing.T) {
	n := New(10, nil)
	facing(t, n, `metadata: {labels: {kubernetes.io/hostname: here}}`)
	const term = `{requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: db}}}]}`
	n.Wait(readPod(t, `{metadata: {name: web}, spec: {affinity: {podAffinity: `+term+`}}}`), false)
	n.Wait(readPod(t, `{metadata: {name: lone}, spec: {affinity: {podAntiAffinity: `+term+`}}}`), false)
	if got := decide(n); got != "+lone" {
		t.Fatalf("first %q", got)
	}
	db := readPod(t, `{metadata: {name: db, labels: {app: db}}}`)
	n.Wait(db, false)
	if got := decide(n); got != "" || n.Why("db") == "" {
		t.Fatalf("beside one that keeps it away: %q", got)
	}
	n.Gone("lone")
	if got := decide(n); got != "+db +web" {
		t.Errorf("then %q", got)
	}
}

// The labels of a pod may change, whether it waits or runs.
func TestAPodIsRelabelled(t *testing.T) {
	n := New(10, nil)
	facing(t, n, `metadata: {labels: {kubernetes.io/hostname: here}}`)
	const apart = `{requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: db}}}]}`
	n.run(readPod(t, `{metadata: {name: lone}, spec: {affinity: {podAntiAffinity: `+apart+`}}}`), 1)
	n.Wait(readPod(t, `{metadata: {name: db, labels: {app: db}}}`), false)
	relabel := func(name string, labels map[string]string) string {
		pod := &corev1.Pod{}
		pod.Namespace, pod.Name, pod.UID, pod.Labels = "ns", name, types.UID(name), labels
		n.Relabel(pod)
		return decide(n)
	}
	if got := decide(n); got != "" {
		t.Fatalf("it starts where it is kept away: %q", got)
	}
	if got := relabel("db", nil); got != "+db" {
		t.Errorf("with no label: %q", got)
	}
	n.Wait(readPod(t, `{metadata: {name: next}, spec: {affinity: {podAntiAffinity: `+apart+`}}}`), false)
	if got := decide(n); got != "+next" {
		t.Errorf("beside one without the label: %q", got)
	}
	relabel("db", map[string]string{"app": "db"})
	n.Wait(readPod(t, `{metadata: {name: last}, spec: {affinity: {podAntiAffinity: `+apart+`}}}`), false)
	if got := decide(n); got != "" {
		t.Errorf("beside one with the label: %q", got)
	}
	if got := relabel("db", map[string]string{"app": "web"}); got != "+last" {
		t.Errorf("with another label: %q", got)
	}
	if relabel("nobody", map[string]string{"app": "db"}) != "" {
		t.Error("a pod that is not there")
	}
}

func TestAPodIsMovedForOneThatDoesNotStandIt(t *testing.T) {
	n := New(10, nil)
	facing(t, n, `metadata: {labels: {kubernetes.io/hostname: here}}`)
	n.run(readPod(t, `{metadata: {name: low, labels: {app: a}}}`), 0)
	n.run(readPod(t, `{metadata: {name: other}}`), 0)
	n.Wait(
		readPod(
			t,
			`{metadata: {name: high}, spec: {priority: 5, affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: a}}}]}}}}`,
		),
		false,
	)
	step, ok := n.Next(nil)
	if !ok || !slices.Equal(step.Victims, []types.UID{"low"}) {
		t.Errorf("%+v", step)
	}
}

// What is counted is what one would find by asking each pod about each other one.
func TestRelationsAgreeWithAskingEverybody(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := New(rapid.SampledFrom([]int{2, 5, 1000}).Draw(t, "maxPods"), nil)
		node := &corev1.Node{}
		node.Labels = map[string]string{"here": "x"}
		n.Describe(node)
		apps := rapid.SampledFrom([]string{"a", "b", "c"})
		spaces := rapid.SampledFrom([]string{"ns", "other"})
		objects, mine := map[types.UID]*corev1.Pod{}, map[types.UID]*Pod{}
		teams := map[string]string{}
		newPod := func(i int) {
			p := &corev1.Pod{}
			p.UID, p.Namespace, p.Labels = types.UID(fmt.Sprint("p", i)), spaces.Draw(t, "ns"), map[string]string{"app": apps.Draw(t, "app")}
			p.CreationTimestamp = metav1.Unix(int64(i), 0)
			term := func() corev1.PodAffinityTerm {
				out := corev1.PodAffinityTerm{
					TopologyKey:   rapid.SampledFrom([]string{"here", "here", "there"}).Draw(t, "key"),
					LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": apps.Draw(t, "of")}},
				}
				switch rapid.IntRange(0, 3).Draw(t, "where") {
				case 0:
					out.Namespaces = []string{"other"}
				case 1:
					out.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "red"}}
				}
				return out
			}
			switch rapid.IntRange(0, 5).Draw(t, "asks") {
			case 0:
				p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term()}}}
			case 1:
				p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term()}}}
			case 2:
				two := int32(2)
				p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
					MaxSkew: 2, MinDomains: &two, TopologyKey: "here", WhenUnsatisfiable: corev1.DoNotSchedule,
					LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": apps.Draw(t, "spread")}},
				}}
			}
			objects[p.UID], mine[p.UID] = p, PodOf(p)
			n.Wait(mine[p.UID], false)
		}
		selects := func(holder *corev1.Pod, term *corev1.PodAffinityTerm, other *corev1.Pod) bool {
			in := slices.Contains(term.Namespaces, other.Namespace) ||
				len(term.Namespaces) == 0 && term.NamespaceSelector == nil && holder.Namespace == other.Namespace ||
				term.NamespaceSelector != nil && teams[other.Namespace] == "red"
			selector, _ := metav1.LabelSelectorAsSelector(term.LabelSelector)
			return in && selector.Matches(labels.Set(other.Labels))
		}
		antis := func(p *corev1.Pod) []corev1.PodAffinityTerm {
			if p.Spec.Affinity == nil || p.Spec.Affinity.PodAntiAffinity == nil {
				return nil
			}
			return p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		}
		fits := func(p *corev1.Pod) bool {
			if len(n.bound) >= n.MaxPods {
				return false
			}
			for _, c := range p.Spec.TopologySpreadConstraints {
				selector, _ := metav1.LabelSelectorAsSelector(c.LabelSelector)
				count := 0
				for uid, b := range n.bound {
					if o := objects[uid]; !b.ending && o.Namespace == p.Namespace && selector.Matches(labels.Set(o.Labels)) {
						count++
					}
				}
				if selector.Matches(labels.Set(p.Labels)) {
					count++
				}
				if count > int(c.MaxSkew) {
					return false
				}
			}
			if p.Spec.Affinity != nil && p.Spec.Affinity.PodAffinity != nil {
				term := &p.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0]
				found := false
				for uid := range n.bound {
					found = found || selects(p, term, objects[uid])
				}
				if term.TopologyKey != "here" || !found && !selects(p, term, p) {
					return false
				}
			}
			for uid := range n.bound {
				o := objects[uid]
				for _, term := range antis(p) {
					if term.TopologyKey == "here" && selects(p, &term, o) {
						return false
					}
				}
				for _, term := range antis(o) {
					if term.TopologyKey == "here" && selects(o, &term, p) {
						return false
					}
				}
			}
			return true
		}
		for i := range rapid.IntRange(1, 30).Draw(t, "steps") {
			uids := slices.Sorted(func(yield func(types.UID) bool) {
				for uid := range objects {
					if !yield(uid) {
						return
					}
				}
			})
			what := rapid.IntRange(0, 10).Draw(t, "what")
			switch {
			case what < 5 || len(uids) == 0:
				newPod(i)
			case what < 7:
				uid := rapid.SampledFrom(uids).Draw(t, "gone")
				n.Gone(uid)
				delete(objects, uid)
			case what == 7:
				uid := rapid.SampledFrom(uids).Draw(t, "relabelled")
				objects[uid].Labels = map[string]string{"app": apps.Draw(t, "to")}
				n.Relabel(objects[uid])
			case what == 8:
				uid := rapid.SampledFrom(uids).Draw(t, "ending")
				if _, ok := n.bound[uid]; ok {
					n.Bound(mine[uid], time.Time{}, true)
				}
			case what == 9:
				uid := rapid.SampledFrom(uids).Draw(t, "resized")
				cpu := *resource.NewMilliQuantity(rapid.Int64Range(1, 3).Draw(t, "cpu"), resource.DecimalSI)
				objects[uid].Spec.Containers = []corev1.Container{{
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": cpu}},
				}}
				n.Allocate(uid, PodOf(objects[uid]), false)
			default:
				ns, team := spaces.Draw(t, "named"), rapid.SampledFrom([]string{"red", "blue"}).Draw(t, "team")
				teams[ns] = team
				n.SetNamespace(ns, map[string]string{"team": team})
			}
			for {
				allowed := map[types.UID]bool{}
				for uid := range n.waiting {
					allowed[uid] = fits(objects[uid])
				}
				step, ok := n.Next(nil)
				if !ok {
					break
				}
				for _, uid := range step.Bind {
					if !allowed[uid] {
						t.Fatalf("%s starts beside pods that it must not be with", uid)
					}
				}
			}
			for uid := range n.waiting {
				if fits(objects[uid]) {
					t.Fatalf("%s waits for nothing, and says %q", uid, n.Why(uid))
				}
				if n.Why(uid) == "" {
					t.Fatalf("%s does not say why it waits", uid)
				}
				if r, _ := n.Room(uid); r.Clear() {
					t.Fatalf("%s waits since %s, and has room: %+v", uid, n.Why(uid), r)
				}
			}
		}
	})
}
