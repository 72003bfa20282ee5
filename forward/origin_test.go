package forward

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
)

func node(name, machine, system string, age time.Duration) corev1.Node {
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now.Add(-age))},
		Status:     corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{MachineID: machine, SystemUUID: system, BootID: string(now.String())}},
	}
}

// A copy of a disk has the machine-id of the former machine, an image may have its own in each; the hardware tells the rest.
func TestMachineOf(t *testing.T) {
	is := machineOf([]corev1.Node{node("box", "m", "s", time.Hour)})
	for name, c := range map[string]struct {
		nodes []corev1.Node
		same  bool
	}{
		"after a restart":            {[]corev1.Node{node("box", "m", "s", time.Hour)}, true},
		"under another name":         {[]corev1.Node{node("other", "m", "s", time.Hour)}, true},
		"beside a node of somebody":  {[]corev1.Node{node("a", "", "", time.Hour), node("b", "x", "y", 0), node("box", "m", "s", time.Hour)}, true},
		"its disk in another":        {[]corev1.Node{node("box", "m", "other", time.Hour)}, false},
		"its hardware, newly set up": {[]corev1.Node{node("box", "other", "s", time.Hour)}, false},
		"another":                    {[]corev1.Node{node("box", "ms", "", time.Hour)}, false},
		"nobody knows":               {[]corev1.Node{node("box", "", "", time.Hour)}, false},
	} {
		if got := machineOf(c.nodes); (got == is) != c.same {
			t.Errorf("%s: %q beside %q", name, got, is)
		}
	}
}

func TestIntroduce(t *testing.T) {
	system := func(uid types.UID) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: uid}}
	}
	for name, c := range map[string]struct {
		node   string
		remote *fake.Clientset
		valid  bool
	}{
		"a cluster":                    {"box", fake.NewClientset(system("cluster-1")), true},
		"one that may not be known":    {"box", fake.NewClientset(), true},
		"one named as the node is":     {"prod", fake.NewClientset(system("cluster-1")), false},
		"jobd itself, or its own copy": {"box", fake.NewClientset(system("jobd-1")), false},
	} {
		n := node(c.node, "m", "s", 0)
		f := cluster(system("jobd-1"), &n)
		f.origin, f.remote = Origin{}, c.remote
		err := f.introduce(t.Context())
		if (err == nil) != c.valid || errors.Is(err, errNames) == c.valid {
			t.Errorf("%s: %v", name, err)
		}
		if want := (Origin{"jobd-1", machineOf([]corev1.Node{n})}); (f.origin == want) != c.valid {
			t.Errorf("%s: the origin is %+v", name, f.origin)
		}
	}
}
