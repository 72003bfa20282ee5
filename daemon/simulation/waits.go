package simulation

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/core"
	wire "github.com/jobd/jobd/api/forecast"
	"github.com/jobd/jobd/daemon/forecast"
)

// mostForetold is of how many pods that wait it is told when they are expected to start: each time it is looked ahead anew.
const mostForetold = 1000

// tellWaits tells which pods have no room, and when they are expected to.
func (s *simulation) tellWaits() {
	var plan *forecast.Plan
	for _, p := range s.live {
		if p.told || p.Spec.NodeName != "" {
			continue
		}
		why := s.node.Why(p.UID)
		if why == "" {
			continue
		}
		p.told = true
		words := ""
		at := s.expected(p, &plan)
		if at != nil {
			words = "; its start is expected " + s.when(at)
		}
		p.of.tell("Waits", p, "waits for room: %s%s", why, words)
		s.result.Timeline[len(s.result.Timeline)-1].Expected = at
	}
}

// expected returns when a pod that waits is expected to start, as the daemon would say it now; nil if nobody knows. The plan is made once.
func (s *simulation) expected(p *simulated, plan **forecast.Plan) *wire.Expected {
	if s.foretold == mostForetold {
		return nil
	}
	s.foretold++
	if *plan == nil {
		*plan = forecast.NewPlan(s.node.Outlook(forecast.Ahead), func(uid types.UID) forecast.Runs {
			if of := s.byUID[uid]; of != nil {
				return of.of.took
			}
			return nil
		}, s.now)
	}
	at, known := (*plan).Starts[p.UID]
	for i := 0; !known && p.of.gang != "" && i < len(p.of.pods); i++ { // the plan has one pod of a gang, and they start together
		if other := p.of.pods[i]; other != nil {
			at, known = (*plan).Starts[other.UID]
		}
	}
	if !known {
		return nil
	}
	window := core.WindowOf(p.of.job.Annotations)
	if window == nil {
		window = core.WindowOf(s.namespaces[p.of.job.Namespace])
	}
	at = forecast.InWindow(at, window)
	return &at
}

// when says it in time since the beginning, as all of the timeline: "by 30s (by deadline)".
func (s *simulation) when(e *wire.Expected) string {
	words := "at "
	if e.Basis == wire.Deadline {
		words = "by "
	}
	sure := e.Sure()
	if e.Basis == wire.History {
		sure = "as pods of it before" // a simulation has no other history
	}
	return words + e.At.Sub(s.Begin).Round(time.Second).String() + " (" + sure + ")"
}

// mostRuns is of how many pods of a Job it is remembered how long they took, as the daemon does of those of a name.
const mostRuns = 20

// ran notes how long a pod took that has succeeded.
func (s *played) ran(p *simulated) {
	if p.Status.StartTime == nil {
		return
	}
	s.took = append(s.took, s.now.Sub(p.Status.StartTime.Time))
	s.took = s.took[max(0, len(s.took)-mostRuns):]
}
