package forecast

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	wire "github.com/jobd/jobd/api/forecast"
	"github.com/jobd/jobd/daemon/node"
	"github.com/jobd/jobd/daemon/prospect"
	"github.com/jobd/jobd/daemon/requests"
)

var now = time.Date(2026, 1, 2, 12, 0, 0, 0, time.Local)

func TestLeftOfARun(t *testing.T) {
	runs := Runs{30 * time.Second, 10 * time.Second, 20 * time.Second}
	for name, c := range map[string]struct {
		elapsed, left time.Duration
		ok            bool
	}{
		"at the start it is the middle one":         {0, 20 * time.Second, true},
		"later it is the middle of the longer ones": {15 * time.Second, 15 * time.Second, true},
		"nobody knows about the longest ever":       {30 * time.Second, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			if left, ok := runs.Left(c.elapsed); left != c.left || ok != c.ok {
				t.Errorf("%s %v", left, ok)
			}
		})
	}
}

func TestEndOfAJob(t *testing.T) {
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for name, c := range map[string]struct {
		of   Progress
		want string
	}{
		"nothing is known": {Progress{Started: ago(time.Minute)}, ""},
		"it does not run":  {Progress{Runs: Runs{time.Hour}}, ""},
		"earlier runs": {
			Progress{Started: ago(time.Minute), Runs: Runs{61 * time.Minute}},
			"end expected at 13:00 (1 earlier run)",
		},
		"longer than any earlier run": {Progress{Started: ago(time.Hour), Runs: Runs{time.Minute}}, ""},
		"a deadline":                  {Progress{Started: ago(0), Deadline: now.Add(2 * time.Hour)}, "end expected by 14:00 (by deadline)"},
		"a deadline before earlier runs ended": {
			Progress{Started: ago(0), Deadline: now.Add(time.Hour), Runs: Runs{2 * time.Hour}},
			"end expected by 13:00 (by deadline)",
		},
		"a deadline after earlier runs ended": {
			Progress{Started: ago(0), Deadline: now.Add(3 * time.Hour), Runs: Runs{2 * time.Hour, 2 * time.Hour}},
			"end expected at 14:00 (2 earlier runs)",
		},
		"a few indexes are less than earlier runs": {
			Progress{Started: ago(time.Hour), Completions: 4, Succeeded: 1, Runs: Runs{2 * time.Hour}},
			"end expected at 13:00 (1 earlier run)",
		},
		"a few indexes are better than nothing": {
			Progress{Started: ago(time.Hour), Completions: 4, Succeeded: 2},
			"end expected at 13:00 (at the rate of 2 so far)",
		},
		"many indexes are more than earlier runs": {
			Progress{Started: ago(time.Hour), Completions: 30, Succeeded: 10, Runs: Runs{9 * time.Hour}},
			"end expected at 14:00 (at the rate of 10 so far)",
		},
		"what was paused is no run time": {
			Progress{Started: ago(11 * time.Hour), Paused: 10 * time.Hour, Runs: Runs{2 * time.Hour}},
			"end expected at 13:00 (1 earlier run)",
		},
		"nor does it slow down the rate": {
			Progress{Started: ago(11 * time.Hour), Paused: 10 * time.Hour, Completions: 20, Succeeded: 10},
			"end expected at 13:00 (at the rate of 10 so far)",
		},
		"while it is paused nobody knows": {
			Progress{Started: ago(time.Hour), Stands: true, Completions: 30, Succeeded: 10, Runs: Runs{2 * time.Hour}}, "",
		},
		"all have succeeded": {Progress{Started: ago(time.Hour), Completions: 3, Succeeded: 3}, ""},
		"on another day":     {Progress{Started: ago(0), Runs: Runs{24 * time.Hour}}, "end expected at Jan 3 12:00 (1 earlier run)"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &wire.Forecast{Ends: End(c.of, now)}
			if got := f.Brief(now); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// outlook describes a machine of four CPUs.
func outlook(running, waiting []prospect.Outlined) prospect.Outlook {
	return prospect.Outlook{MaxPods: 10, Allocatable: requests.Resources{"cpu": 4000, "memory": 10}, Running: running, Waiting: waiting}
}

func pod(uid string, cpu int64) prospect.Outlined {
	return prospect.Outlined{UID: types.UID(uid), Pods: 1, Requests: requests.Resources{"cpu": cpu}}
}

func TestStarts(t *testing.T) {
	ends := func(p prospect.Outlined, after time.Duration) prospect.Outlined {
		p.Started, p.Ends = now.Add(-time.Minute), now.Add(after)
		return p
	}
	runs := func(p prospect.Outlined) prospect.Outlined {
		p.Started = now.Add(-time.Minute)
		return p
	}
	for name, c := range map[string]struct {
		running, waiting []prospect.Outlined
		known            map[types.UID]Runs
		want             string
	}{
		"by the deadline of what runs": {
			running: []prospect.Outlined{ends(pod("a", 4000), time.Hour)}, waiting: []prospect.Outlined{pod("w", 1000)},
			want: "w: expected by 13:00 (by deadline)\n",
		},
		"by how long earlier runs took": {
			running: []prospect.Outlined{runs(pod("a", 4000))}, waiting: []prospect.Outlined{pod("w", 1000)},
			known: map[types.UID]Runs{"a": {61 * time.Minute, 61 * time.Minute}}, want: "w: expected at 13:00 (2 earlier runs)\n",
		},
		"what was paused is no run time": {
			running: []prospect.Outlined{{
				UID: "a", Pods: 1, Requests: requests.Resources{"cpu": 4000}, Started: now.Add(-11 * time.Hour), PausedFor: 10 * time.Hour,
			}},
			waiting: []prospect.Outlined{pod("w", 1000)}, known: map[types.UID]Runs{"a": {2 * time.Hour}},
			want: "w: expected at 13:00 (1 earlier run)\n",
		},
		"nobody knows when one ends that is frozen": {
			running: []prospect.Outlined{
				{UID: "a", Pods: 1, Requests: requests.Resources{"memory": 1}, Started: now.Add(-time.Minute), Frozen: true},
				ends(pod("b", 4000), time.Hour),
			},
			waiting: []prospect.Outlined{pod("w", 1000), {UID: "x", Pods: 1, Requests: requests.Resources{"memory": 10}}},
			known:   map[types.UID]Runs{"a": {2 * time.Hour}}, want: "w: expected by 13:00 (by deadline)\n",
		},
		"nobody knows": {running: []prospect.Outlined{runs(pod("a", 4000))}, waiting: []prospect.Outlined{pod("w", 1000)}},
		"only what it needs has to end": {
			running: []prospect.Outlined{runs(pod("a", 2000)), ends(pod("b", 1000), time.Hour), ends(pod("c", 1000), 2*time.Hour)},
			waiting: []prospect.Outlined{pod("w", 2000)}, want: "w: expected by 14:00 (by deadline)\n",
		},
		"behind others": {
			running: []prospect.Outlined{ends(pod("a", 4000), time.Hour)}, waiting: []prospect.Outlined{pod("v", 3000), pod("w", 2000), pod("x", 1000)},
			known: map[types.UID]Runs{"v": {time.Hour}, "w": {time.Hour}, "x": {time.Minute}},
			want:  "v: expected by 13:00 (by deadline)\nw: expected at 14:00 (1 earlier run)\nx: expected by 13:00 (by deadline)\n",
		},
		"behind one of whom nobody knows how long it runs": {
			running: []prospect.Outlined{ends(pod("a", 4000), time.Hour)}, waiting: []prospect.Outlined{pod("v", 3000), pod("w", 2000), pod("x", 1000)},
			want: "v: expected by 13:00 (by deadline)\n",
		},
		"larger than the machine": {waiting: []prospect.Outlined{pod("w", 5000)}},
	} {
		t.Run(name, func(t *testing.T) {
			starts := NewPlan(outlook(c.running, c.waiting), func(uid types.UID) Runs { return c.known[uid] }, now).Starts
			got := ""
			for _, w := range c.waiting {
				if e, ok := starts[w.UID]; ok {
					got += fmt.Sprintf("%s: %s\n", w.UID, e.Brief(now))
				}
			}
			if got != c.want {
				t.Errorf("got:\n%swant:\n%s", got, c.want)
			}
		})
	}
}

// TestTheFirstStartsWhenItIsExpectedTo plays a node on which all that runs takes as long as it did before: the first that waits starts
// at the very time, whatever waits behind it.
func TestTheFirstStartsWhenItIsExpectedTo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		begin := time.Unix(1_000_000, 0)
		n := node.New(5, requests.Resources{"cpu": 3000})
		n.StarvationAfter = time.Second
		ends, lasts := map[types.UID]time.Time{}, map[types.UID]Runs{}
		made := func(uid string, at time.Time) *node.Pod {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), CreationTimestamp: metav1.NewTime(at)}}
			cpu := resource.NewMilliQuantity(500*rapid.Int64Range(1, 6).Draw(t, "cpu"), resource.DecimalSI)
			p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": *cpu}}}}
			lasts[p.UID] = Runs{time.Duration(rapid.IntRange(1, 100).Draw(t, "lasts")) * time.Second}
			return node.PodOf(p)
		}
		pods := map[types.UID]*node.Pod{}
		for i := range rapid.IntRange(1, 12).Draw(t, "pods") {
			p := made(fmt.Sprint(i), begin.Add(-time.Hour).Add(time.Duration(i)*time.Second))
			pods[p.UID] = p
			n.Wait(p, false)
		}
		pass := func(at time.Time) {
			n.At(at)
			for step, ok := n.Next(nil); ok; step, ok = n.Next(nil) {
				for _, uid := range step.Bind {
					n.Bound(pods[uid], at, false)
					ends[uid] = at.Add(lasts[uid][0])
				}
			}
		}
		pass(begin)
		o := n.Outlook(10)
		if len(o.Waiting) == 0 {
			return
		}
		first := o.Waiting[0].UID
		said, ok := NewPlan(o, func(uid types.UID) Runs { return lasts[uid] }, begin).Starts[first]
		if !ok {
			t.Fatal("nobody says when it starts")
		}
		for at := begin; ends[first].IsZero(); {
			next := slices.MinFunc(slices.Collect(maps.Values(ends)), time.Time.Compare)
			for uid, end := range ends {
				if end.Equal(next) {
					delete(ends, uid)
					n.Gone(uid)
				}
			}
			at = next
			if pass(at); !ends[first].IsZero() && !at.Equal(said.At.Time) {
				t.Fatalf("it starts after %s, and was expected to after %s", at.Sub(begin), said.At.Sub(begin))
			}
		}
	})
}
