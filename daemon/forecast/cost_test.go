package forecast

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/prospect"
	"github.com/jobd/jobd/daemon/requests"
)

// crowded is a machine that clients have made as bad as they can for those who look ahead: as many pods run as may, each ends at a time of
// its own and has run as often as is remembered, and all that wait need nearly all of it.
func crowded(resources int) (o prospect.Outlook, estimate func(types.UID) Runs, now time.Time) {
	now = time.Unix(1_000_000, 0)
	o = prospect.Outlook{MaxPods: 1000, Allocatable: requests.Resources{}}
	all, one := requests.Resources{}, requests.Resources{}
	for r := range resources {
		name := corev1.ResourceName(fmt.Sprint("example.com/r", r))
		o.Allocatable[name], all[name], one[name] = 1000, 990, 1
	}
	runs := map[types.UID]Runs{}
	add := func(to *[]prospect.Outlined, i int, p prospect.Outlined) {
		p.UID, p.Pods = types.UID(fmt.Sprint(len(runs))), 1
		for k := range 40 {
			runs[p.UID] = append(runs[p.UID], time.Duration(i*40+k+1)*time.Second)
		}
		*to = append(*to, p)
	}
	for i := range 1000 {
		add(&o.Running, i, prospect.Outlined{Requests: one, Started: now.Add(-time.Duration(i) * time.Millisecond)})
	}
	for i := range MostAhead {
		add(&o.Waiting, i, prospect.Outlined{Requests: all})
	}
	return o, func(uid types.UID) Runs { return runs[uid] }, now
}

// TestAPlanOfACrowdedMachine counts what it takes to look ahead there, and that all who wait are looked at.
func TestAPlanOfACrowdedMachine(t *testing.T) {
	o, estimate, now := crowded(5)
	var p *Plan
	if n := testing.AllocsPerRun(1, func() { p = NewPlan(o, estimate, now) }); n > 30_000 {
		t.Errorf("%v allocations: what is allocated for each of 300 at each of 1,300 times is too much", n)
	}
	if len(p.Starts) != MostAhead {
		t.Errorf("%d of those that wait are expected to start", len(p.Starts))
	}
}

func BenchmarkPlanOfACrowdedMachine(b *testing.B) {
	o, estimate, now := crowded(5)
	b.ReportAllocs()
	for b.Loop() {
		NewPlan(o, estimate, now)
	}
}
