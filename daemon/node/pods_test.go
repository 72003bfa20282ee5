package node

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/jobd/jobd/daemon/fit"
	"github.com/jobd/jobd/daemon/requests"
)

// want returns a pod that asks for that much cpu, in thousandths.
func want(uid types.UID, created int64, cpu int64) *Pod {
	ask := requests.Resources{"cpu": cpu}
	if cpu == 0 {
		ask = nil
	}
	return &Pod{UID: uid, Created: uint32(created), shape: newShape(ask, nil, fit.Terms{}, false)}
}

func (p *Pod) with(change func(*Pod)) *Pod {
	change(p)
	return p
}

func of(g string) func(*Pod)        { return func(p *Pod) { p.SetGroup("ns/" + g) } }
func (n *Node) run(p *Pod, s int64) { n.Bound(p, time.Unix(s, 0), false) }

func facing(t *testing.T, n *Node, node string) {
	t.Helper()
	obj := &corev1.Node{}
	if err := yaml.UnmarshalStrict([]byte(node), obj); err != nil {
		t.Fatal(err)
	}
	n.Describe(obj)
}

// decide takes all decisions and writes them down: "+a" for a pod that is bound, "-b" for one that makes way, "c?" for
// one that waits for that.
func decide(n *Node) string {
	var said []string
	note := func(format string, uids []types.UID) {
		if len(uids) > 0 {
			slices.Sort(uids)
			var names []string
			for _, uid := range uids {
				names = append(names, string(uid))
			}
			said = append(said, fmt.Sprintf(format, strings.Join(names, "&")))
		}
	}
	for step, ok := n.Next(nil); ok; step, ok = n.Next(nil) {
		note("+%s", step.Bind)
		note("-%s", step.Victims)
		note("%s?", step.Nominate)
	}
	return strings.Join(said, " ")
}

// TestHowLongAPodMayRun: by its own deadline or by that of its Job, whichever comes first, and the time that it then has to end.
func TestHowLongAPodMayRun(t *testing.T) {
	for _, tc := range []struct {
		own, job *int64
		want     requests.Limit
	}{
		{nil, nil, 0},
		{ptr.To[int64](100), nil, requests.LimitOf(130)},
		{nil, ptr.To[int64](100), requests.LimitOf(130)},
		{ptr.To[int64](1000), ptr.To[int64](100), requests.LimitOf(130)},
		{ptr.To[int64](100), ptr.To[int64](1000), requests.LimitOf(130)},
		{ptr.To[int64](100), ptr.To[int64](math.MaxInt64), requests.LimitOf(130)},
		{nil, ptr.To[int64](math.MaxInt64), 0},
		{nil, ptr.To[int64](-1), requests.LimitOf(30)},
	} {
		pod := &corev1.Pod{}
		pod.Spec.ActiveDeadlineSeconds = tc.own
		p := PodOf(pod)
		if p.Within(tc.job); p.limit != tc.want {
			t.Errorf("%v: %s, want %s", tc, p.limit.Duration(), tc.want.Duration())
		}
	}
}

func TestPodsThatAreAlike(t *testing.T) {
	pod := func(change func(p *corev1.Pod)) *Pod {
		p := &corev1.Pod{}
		p.Namespace, p.Labels = "ns", map[string]string{"a": "b"}
		p.Spec.Containers = []corev1.Container{{Name: "c"}}
		change(p)
		return PodOf(p)
	}
	apart := func(key string) *corev1.Affinity {
		return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{key: "x"}}, TopologyKey: corev1.LabelHostname,
		}}}}
	}
	base := func(p *corev1.Pod) { p.Spec.Affinity = apart("k") }
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		alike  bool
	}{
		"the same":          {func(*corev1.Pod) {}, true},
		"another name":      {func(p *corev1.Pod) { p.Name, p.UID = "x", "x" }, true},
		"other labels":      {func(p *corev1.Pod) { p.Labels = nil }, false},
		"another namespace": {func(p *corev1.Pod) { p.Namespace = "x" }, false},
		"another deadline":  {func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr.To[int64](5) }, false},
		"other company":     {func(p *corev1.Pod) { p.Spec.Affinity = apart("l") }, false},
		"other requests": {func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1")}
		}, false},
	} {
		one, other := pod(base), pod(func(p *corev1.Pod) { base(p); tc.change(p) })
		if one.Alike(other) != tc.alike || other.Alike(one) != tc.alike {
			t.Errorf("%s: %v", name, !tc.alike)
		}
	}
}
