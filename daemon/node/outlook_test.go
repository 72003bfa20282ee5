package node

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/daemon/requests"
)

// TestOutlook: those that run in the order of their start, and the first that wait, of which a gang that has to start together is one.
func TestOutlook(t *testing.T) {
	n := New(9, requests.Resources{"cpu": 4000})
	n.At(time.Unix(1000, 0))
	n.run(want("r2", 2, 1000), 500)
	n.run(want("r1", 1, 1000).with(func(p *Pod) { p.Within(ptr.To[int64](1024)) }), 400)
	n.run(want("r3", 3, 1000), 600)
	n.Freeze("r3", Pause{Frozen: true, For: 7 * time.Second})
	n.SetGroup("ns/g", Group{Gang: true, MinCount: 2})
	n.SetGroup("ns/few", Group{Gang: true, MinCount: 2})
	n.Wait(want("g1", 10, 2000).with(of("g")), false)
	n.Wait(want("g2", 11, 2000).with(of("g")), false)
	n.Wait(want("alone", 12, 4000).with(of("few")), false) // of a gang whose other pod is not there
	for _, created := range []int64{14, 16, 13, 15} {
		n.Wait(want(types.UID(fmt.Sprint("w", created)), created, 4000), false)
	}
	o := n.Outlook(5)
	var running, waiting []string
	for _, p := range o.Running {
		running = append(running, fmt.Sprint(p.UID, " ", p.Requests["cpu"], p.Started.Unix(), p.Frozen, p.PausedFor))
		if ends := p.Ends; ends.IsZero() == (p.UID == "r1") || p.UID == "r1" && ends.Unix() != 400+1024 {
			t.Errorf("%s ends at %s", p.UID, ends)
		}
	}
	if w := []string{"r1 1000 400 false 0s", "r2 1000 500 false 0s", "r3 0 600 true 7s"}; !slices.Equal(running, w) {
		t.Errorf("running %q, want %q", running, w)
	}
	for _, p := range o.Waiting {
		waiting = append(waiting, fmt.Sprint(p.UID, " ", p.Pods, p.Requests["cpu"]))
	}
	if w := []string{"g1 2 4000", "w13 1 4000", "w14 1 4000"}; !slices.Equal(waiting, w) || o.More != 2 {
		t.Errorf("waiting %q and %d more, want %q", waiting, o.More, w)
	}
}
