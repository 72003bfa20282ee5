package node

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/relation"
	"github.com/jobd/jobd/daemon/requests"
)

// keepsApart makes a pod of a namespace with anti-affinity of that many terms, each with as many expressions, for any pod.
func keepsApart(namespace, name string, terms, expressions int) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name),
		Labels: map[string]string{"name": name}}}
	anti := &corev1.PodAntiAffinity{}
	for i := range terms {
		t := corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, NamespaceSelector: &metav1.LabelSelector{}, LabelSelector: &metav1.LabelSelector{}}
		for e := range expressions {
			t.LabelSelector.MatchExpressions = append(t.LabelSelector.MatchExpressions, metav1.LabelSelectorRequirement{
				Key: fmt.Sprintf("%s-%s-%d-%d", namespace, name, i, e), Operator: metav1.LabelSelectorOpDoesNotExist,
			})
		}
		anti.RequiredDuringSchedulingIgnoredDuringExecution = append(anti.RequiredDuringSchedulingIgnoredDuringExecution, t)
	}
	p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: anti}
	return p
}

// named makes a pod that asks nothing of others.
func named(namespace, name string) *corev1.Pod {
	p := keepsApart(namespace, name, 0, 0)
	p.Spec.Affinity = nil
	return p
}

func onHost(maxPods int) *Node {
	n := New(maxPods, nil)
	n.Describe(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{corev1.LabelHostname: "host"}}})
	return n
}

// TestRulesCostWhatTheyMustBeComparedWith counts the comparisons, since a pass makes them: terms times pods, not more.
func TestRulesCostWhatTheyMustBeComparedWith(t *testing.T) {
	steps := func(terms, waiting int) int {
		n := onHost(0)
		for i := range waiting {
			n.Wait(PodOf(named("ns", fmt.Sprint(i))), false)
		}
		n.TakeSteps()
		n.Wait(PodOf(keepsApart("ns", "p", terms, 2)), false)
		return n.TakeSteps()
	}
	const terms, waiting = 100, 1000
	if once := steps(terms, waiting); once > 10*terms*waiting {
		t.Errorf("%d steps for %d terms and %d pods", once, terms, waiting)
	}
	if once, twice := steps(terms, waiting), steps(2*terms, waiting); twice > once*5/2 {
		t.Errorf("%d steps, %d for twice as many terms", once, twice)
	}
	if once, twice := steps(terms, waiting), steps(terms, 2*waiting); twice > once*5/2 {
		t.Errorf("%d steps, %d for twice as many pods", once, twice)
	}
}

// TestNewRulesAreComparedLater has very many pods with labels of their own that wait when somebody brings a new rule: that is
// compared with them as they are looked at, little by little, and each of them is kept away by it.
func TestNewRulesAreComparedLater(t *testing.T) {
	const waiting = 20_000
	for name, group := range map[string]string{"one by one": "", "as a gang": "ns/g"} {
		t.Run(name, func(t *testing.T) {
			n := onHost(waiting + 10)
			n.Offer(requests.Resources{"cpu": 1000})
			n.SetGroup("ns/g", Group{Gang: true, MinCount: waiting})
			n.run(want("blocker", 0, 1000), 0)
			for i := range waiting {
				p := named("ns", fmt.Sprint(i))
				p.Spec.Containers = []corev1.Container{
					{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": *resource.NewMilliQuantity(1, resource.DecimalSI)}}},
				}
				w := PodOf(p)
				w.SetGroup(group)
				n.Wait(w, false)
			}
			decide(n)
			n.TakeSteps()
			rule := keepsApart("ns", "rule", 1, 1)
			selector := rule.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector
			selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "name", Operator: metav1.LabelSelectorOpExists}}
			n.Wait(PodOf(rule), false)
			if steps := n.TakeSteps(); steps > 1000 {
				t.Errorf("%d steps for a new rule", steps)
			}
			next := func() (bound []types.UID) {
				for {
					step, ok := n.Next(nil)
					if steps := n.TakeSteps(); steps > 3*stepsAtOnce {
						t.Errorf("%d steps at once", steps)
					}
					if bound = append(bound, step.Bind...); !ok {
						return bound
					}
				}
			}
			if bound := next(); len(bound) != 1 || bound[0] != rule.UID {
				t.Fatalf("%d pods are bound", len(bound))
			}
			n.Gone("blocker")
			if bound := next(); len(bound) > 0 {
				t.Fatalf("%d pods are bound beside one that does not stand them", len(bound))
			}
			n.Gone(rule.UID)
			if bound := next(); len(bound) != 1000 && group == "" {
				t.Fatalf("%d pods are bound", len(bound))
			}
		})
	}
}

// TestPodsOfAJobAreComparedOnce uses that they have the same labels, but for the index.
func TestPodsOfAJobAreComparedOnce(t *testing.T) {
	n := onHost(0)
	for i := range 1000 {
		p := named("ns", "worker")
		p.UID = types.UID(fmt.Sprint(i))
		p.Labels["batch.kubernetes.io/job-completion-index"] = fmt.Sprint(i)
		n.Wait(PodOf(p), false)
	}
	n.TakeSteps()
	other := keepsApart("ns", "p", 100, 2)
	selector := other.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector
	*selector = metav1.LabelSelector{MatchLabels: map[string]string{"name": "nobody"}}
	for i := range other.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		other.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[i].LabelSelector.MatchLabels = map[string]string{"name": "nobody"}
	}
	n.Wait(PodOf(other), false)
	if steps := n.TakeSteps(); steps > 5000 {
		t.Errorf("%d steps", steps)
	}
	matches := func(index string) bool {
		probe := named("ns", "probe")
		probe.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{"batch.kubernetes.io/job-completion-index": index},
			},
		}}}}
		n.Wait(PodOf(probe), false)
		defer n.Gone(probe.UID)
		return slices.ContainsFunc(n.current(n.waiting["7"]).Matches, func(id int) bool { return n.rules.Get(id) != nil })
	}
	if !matches("7") || matches("8") {
		t.Error("a rule about indexes does not tell them apart")
	}
}

// TestRulesAreBounded fills the node with rules. Pods that bring more wait, those of others do not, and all get their turn.
func TestRulesAreBounded(t *testing.T) {
	n := onHost(1000)
	cordon(n, true)
	for i := range 20 {
		n.Wait(PodOf(keepsApart("greedy", fmt.Sprint(i), 100, 1)), false)
	}
	if n.rules.Len() != relation.MaxOwnRules {
		t.Errorf("%d rules", n.rules.Len())
	}
	n.Wait(PodOf(keepsApart("modest", "p", 1, 1)), false)
	if n.waiting["modest/p"].shape.crowded {
		t.Error("there is no room for others")
	}
	for i := range 20 {
		namespace := fmt.Sprint("greedy", i)
		n.Wait(PodOf(keepsApart(namespace, "p", 100, 1)), false)
	}
	if n.rules.Len() > relation.MaxRules {
		t.Errorf("%d rules", n.rules.Len())
	}
	cordon(n, false)
	decide(n)
	crowded := 0
	for uid, w := range n.waiting {
		if w.shape.crowded {
			crowded++
			if why := n.Why(uid); why != "0/1 nodes are available: 1 "+crowd+"."+notHelpful {
				t.Errorf("%s waits since %s", uid, why)
			}
			if r, _ := n.Room(uid); len(r.Unfit) != 1 {
				t.Errorf("%+v", r)
			}
		}
	}
	if crowded != n.crowded || crowded == 0 {
		t.Errorf("%d pods are crowded out, %d are counted", crowded, n.crowded)
	}
	// As others go, those that wait take their turn, until nobody is left.
	for round := 0; len(n.bound)+len(n.waiting) > 0; round++ {
		if round > 100 {
			t.Fatalf("%d are bound and %d wait", len(n.bound), len(n.waiting))
		}
		for uid := range n.bound {
			n.Gone(uid)
		}
		decide(n)
	}
	if n.rules.Len()+len(n.shapes)+n.crowded > 0 {
		t.Errorf("%d rules, %d shapes and %d crowded pods are left", n.rules.Len(), len(n.shapes), n.crowded)
	}
}

// TestNextLetsOthersGoOn has very many different pods to look at, and does not do so all at once.
func TestNextLetsOthersGoOn(t *testing.T) {
	n := onHost(1000)
	for i := range 20 {
		n.run(PodOf(keepsApart(fmt.Sprint("ns", i), "p", 90, 1)), 0)
	}
	for i := range 500 {
		p := named("ns", fmt.Sprint(i))
		p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "host"}
		p.Spec.Tolerations = []corev1.Toleration{{Key: p.Name}} // no two are alike
		n.Wait(PodOf(p), false)
	}
	n.TakeSteps()
	for calls, total := 0, 0; ; calls++ {
		step, ok := n.Next(nil)
		steps := n.TakeSteps()
		total += steps
		if steps > 2*stepsAtOnce {
			t.Errorf("%d steps at once", steps)
		}
		if len(step.Bind) > 0 {
			t.Errorf("%v is bound", step.Bind)
		}
		if !ok {
			if total < stepsAtOnce || calls < total/(2*stepsAtOnce) {
				t.Errorf("%d calls for %d steps: nothing was tried", calls, total)
			}
			return
		}
	}
}

// TestPortsOfTheHostAreFoundAtOnce has pods that ask for very many.
func TestPortsOfTheHostAreFoundAtOnce(t *testing.T) {
	many := func(name, ip string) *Pod {
		p := named("ns", name)
		c := corev1.Container{}
		for i := range 20_000 {
			c.Ports = append(c.Ports, corev1.ContainerPort{HostPort: int32(i + 1), HostIP: ip, Protocol: corev1.ProtocolTCP})
		}
		p.Spec.Containers = []corev1.Container{c}
		return PodOf(p)
	}
	n := onHost(10)
	n.run(many("first", "127.0.0.1"), 0)
	for ip, waits := range map[string]bool{"": true, "127.0.0.1": true, "127.0.0.2": false} {
		p := many("second"+ip, ip)
		n.Wait(p, false)
		decide(n)
		if _, is := n.waiting[p.UID]; is != waits {
			t.Errorf("at %q it waits: %v", ip, is)
		}
		n.Gone(p.UID)
	}
	n.Gone("ns/first")
	if len(n.used.All.Ports) > 0 {
		t.Errorf("%d ports are left", len(n.used.All.Ports))
	}
}

func cordon(n *Node, cordoned bool) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{corev1.LabelHostname: "host"}}}
	node.Spec.Unschedulable = cordoned
	n.Describe(node)
}
