package simulation

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	wire "github.com/jobd/jobd/api/forecast"
	"github.com/jobd/jobd/daemon/forecast"
	"github.com/jobd/jobd/daemon/hold"
	"github.com/jobd/jobd/daemon/objects"
)

// mostForetold is of how many pods that wait it is told when they are expected to start: each time it is looked ahead anew.
const mostForetold = 1000

// tellWaits tells which pods have no room, which Jobs have no place in their group, and when these, and those that wait for others, are
// expected to start.
func (s *simulation) tellWaits() {
	var ahead *forecast.Ahead
	for _, j := range s.jobs {
		switch {
		case len(j.awaits) > 0 && !j.toldHold:
			j.toldHold = true
			j.foretell(j.waits, j.expected(&ahead))
		case j.begun && !j.heldBack() && j.needsPlace() && !j.toldPlace:
			j.toldPlace = true
			j.tell("Waits", nil, "waits for a place in the concurrency group %s", j.group.name)
			j.foretell(len(s.result.Timeline)-1, j.expected(&ahead))
		}
	}
	for _, p := range s.live {
		if p.told || p.Spec.NodeName != "" {
			continue
		}
		why := s.node.Why(p.UID)
		if why == "" {
			continue
		}
		p.told = true
		p.of.tell("Waits", p, "waits for room: %s", why)
		p.of.foretell(len(s.result.Timeline)-1, &wire.Forecast{Starts: s.expectedOf(p, &ahead)})
	}
}

// foretell adds to what was told of something that waits when it is expected to start, if anything is known of that.
func (s *played) foretell(entry int, of *wire.Forecast) {
	e := &s.result.Timeline[entry]
	switch {
	case of.Starts != nil:
		e.Expected = of.Starts
		e.Message += "; its start is expected " + s.when(of.Starts)
	case of.Unknown != "":
		e.Message += "; nobody knows when it starts: " + of.Unknown
	}
}

// lookAhead looks ahead as the daemon would now, once; nil if that was done often enough.
func (s *simulation) lookAhead(ahead **forecast.Ahead) *forecast.Ahead {
	if s.foretold == mostForetold {
		return nil
	}
	s.foretold++
	if *ahead == nil {
		groups := map[[2]string]hold.Line{}
		for _, g := range s.groups {
			if l := g.play.Line(); len(l.Holders)+len(l.Waiting) > 0 {
				groups[[2]string{g.namespace, g.name}] = l
			}
		}
		*ahead = forecast.NewAhead(s.node.Outlook(forecast.MostAhead), func(pod types.UID) forecast.OfJob {
			of := s.byUID[pod]
			if of == nil {
				return forecast.OfJob{}
			}
			return forecast.OfJob{UID: of.of.job.UID, Window: of.of.window()}
		}, func(pod types.UID) forecast.Runs {
			if of := s.byUID[pod]; of != nil {
				return of.of.took
			}
			return nil
		}, groups, s.now)
	}
	return *ahead
}

// window returns the window of a Job or its namespace; nil for none.
func (s *played) window() *core.Window {
	if w := core.WindowOf(s.job.Annotations); w != nil {
		return w
	}
	return core.WindowOf(s.namespaces[s.job.Namespace])
}

// expected returns what the daemon would say now of a Job that is held back.
func (s *played) expected(ahead **forecast.Ahead) *wire.Forecast {
	a := s.lookAhead(ahead)
	if a == nil {
		return &wire.Forecast{}
	}
	of, err := a.Of(knownJobs{s.simulation}, s.job, s.now)
	if err != nil { // which only what is stored gives
		return &wire.Forecast{}
	}
	return of
}

// expectedOf returns when a pod that waits for room is expected to start; nil if nobody knows.
func (s *simulation) expectedOf(p *simulated, ahead **forecast.Ahead) *wire.Expected {
	a := s.lookAhead(ahead)
	if a == nil {
		return nil
	}
	at, known := a.Pod(p.UID)
	for i := 0; !known && p.of.gang != "" && i < len(p.of.pods); i++ { // it looks at one pod of a gang, and they start together
		if other := p.of.pods[i]; other != nil {
			at, known = a.Pod(other.UID)
		}
	}
	if !known {
		return nil
	}
	at = forecast.InWindow(at, p.of.window())
	return &at
}

// knownJobs are the Jobs that are played, of none of which there was an earlier run. It implements forecast.Jobs.
type knownJobs struct{ *simulation }

// Job implements forecast.Jobs.
func (s knownJobs) Job(key string) (*batchv1.Job, error) {
	for _, j := range s.jobs {
		if j.begun && objects.Key(objects.Jobs, j.job) == key {
			return j.job, nil
		}
	}
	return nil, nil
}

// Outcome implements forecast.Jobs.
func (s knownJobs) Outcome(namespace string, n batch.Need) (hold.Outcome, error) {
	return s.outcome(namespace, s.find(namespace, n)), nil
}

// Namespace implements forecast.Jobs.
func (s knownJobs) Namespace(name string) (map[string]string, error) { return s.namespaces[name], nil }

// Earlier implements forecast.Jobs.
func (s knownJobs) Earlier(*batchv1.Job) (jobs, pods forecast.Runs, err error) { return nil, nil, nil }

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
