package node

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/jobd/jobd/daemon/requests"
)

// TestSumsOfRequests takes pods of any requests up and down: sums never become negative, what cannot fit never does, and in
// the end nothing is left.
func TestSumsOfRequests(t *testing.T) {
	quantities := []string{"0", "1m", "100m", "1", "2", "1Gi", "4611686018427650048m", "9223372036854775807", "9223372036854775807m", "8Ei",
		"16Ei", "1e18", "1e19", "1e30", "1n"}
	rapid.Check(t, func(t *rapid.T) {
		n := New(1<<14, nil)
		enough := rapid.Bool().Draw(t, "bounded")
		if enough {
			n.Offer(requests.Resources{corev1.ResourceCPU: 2000, corev1.ResourceMemory: 1 << 31})
		}
		var uids []types.UID
		for i := range rapid.IntRange(1, 30).Draw(t, "pods") {
			p := named("ns", fmt.Sprint(i))
			for range rapid.IntRange(1, 3).Draw(t, "containers") {
				list := corev1.ResourceList{}
				for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
					list[name] = resource.MustParse(rapid.SampledFrom(quantities).Draw(t, string(name)))
				}
				p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Resources: corev1.ResourceRequirements{Requests: list}})
			}
			uids = append(uids, p.UID)
			if rapid.Bool().Draw(t, "bound") && !enough {
				n.run(PodOf(p), 0)
			} else {
				n.Wait(PodOf(p), false)
			}
			decide(n)
			for name, used := range n.used.All.Amounts {
				if used < 0 || enough && used > n.Allocatable[name] {
					t.Fatalf("%d of %s are used", used, name)
				}
			}
		}
		for _, uid := range uids {
			n.Gone(uid)
			decide(n)
		}
		if len(n.used.All.Amounts) > 0 {
			t.Errorf("%v is left", n.used.All.Amounts)
		}
	})
}
