package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
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
