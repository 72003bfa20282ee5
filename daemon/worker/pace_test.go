package worker

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/runtime/simulated"
)

// However long pods take to measure, those of a namespace get a fifth of a processor, and others are measured as ever.
func TestPodsThatTakeLongToMeasure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := Step{
			Name: "slow",
			Measure: func(_ context.Context, p *corev1.Pod) string {
				if p.Namespace == "slow" {
					time.Sleep(2 * time.Second)
				}
				return ""
			},
			TearDown: func(context.Context, types.UID) error { return nil },
		}
		runtime := simulated.New()
		defer runtime.Close()
		p := New(Config{Runtime: runtime, Report: func([]duty.Observation) {}, Steps: []Step{slow}})
		defer p.Close()
		do := func(kind duty.Kind) {
			for n := range 20 {
				pod := &corev1.Pod{}
				pod.Namespace = []string{"slow", "quick"}[n%2]
				pod.UID = types.UID(fmt.Sprint(pod.Namespace, n))
				p.Do(pod, []duty.Action{{Kind: kind}})
			}
			time.Sleep(time.Minute)
		}
		for range 2 {
			do(duty.Measure)
			if got := p.MeasureInterval("slow"); got != 100*time.Second {
				t.Errorf("20 s are spent each %v", got)
			}
			if got := p.MeasureInterval("quick"); got != measureInterval {
				t.Errorf("others are measured each %v", got)
			}
		}
		do(duty.TearDown)
		if got := p.MeasureInterval("slow"); got != measureInterval || len(p.pace.spaces) != 0 {
			t.Errorf("it is %v once they are gone: %v", got, p.pace.spaces)
		}
	})
}
