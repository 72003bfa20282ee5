package daemon

import (
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

func TestNodeName(t *testing.T) {
	for hostname, want := range map[string]string{
		"box":                    "box",
		"Box.Example.ORG":        "box.example.org",
		"my_laptop":              "my-laptop",
		"(none)":                 "none",
		"":                       "localhost",
		"---":                    "localhost",
		"a-.-b..c.":              "a.b.c",
		"Zoë's Rechner":          "zo-s-rechner",
		strings.Repeat("a", 70):  strings.Repeat("a", 63),
		strings.Repeat("a.", 40): strings.Repeat("a.", 31) + "a",
	} {
		got := nodeName(hostname)
		if got != want {
			t.Errorf("%q: %q, want %q", hostname, got, want)
		}
		if problems := append(validation.IsDNS1123Subdomain(got), validation.IsValidLabelValue(got)...); len(problems) > 0 {
			t.Errorf("%q: %q: %v", hostname, got, problems)
		}
	}
}

// A machine that was given another name is the same node still: what was said of it holds, and its old name is gone.
func TestAMachineIsGivenAnotherName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		named := func(name string) {
			w.stop()
			w.self = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
			w.self.Status.NodeInfo.MachineID = "this"
			w.start()
			synctest.Wait()
		}
		named("old")
		w.put("nodes/other", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other", UID: "other"}})
		node := &corev1.Node{}
		if !w.read("nodes/old", node) {
			t.Fatal("there is no node")
		}
		node.Labels["disk"], node.Spec.Unschedulable = "ssd", true
		w.put("nodes/old", node)
		named("new")
		if w.read("nodes/old", node) {
			t.Error("the old name is there still")
		}
		if !w.read("nodes/new", node) || !node.Spec.Unschedulable || node.Labels["disk"] != "ssd" || node.Labels[corev1.LabelHostname] != "new" || node.Name != "new" {
			t.Errorf("%+v", node)
		}
		if !w.read("nodes/other", node) {
			t.Error("somebody else's node is gone")
		}
	})
}
