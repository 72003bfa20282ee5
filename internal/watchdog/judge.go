package watchdog

import (
	"fmt"
	"strings"
	"time"
)

// Limits say how long work may last.
type Limits struct {
	// Tick is the time between two samples.
	Tick time.Duration
	// Slow is how long a piece of work lasts before it is reported.
	Slow time.Duration
	// Hung is how long work may make no step although nothing keeps it from that.
	Hung time.Duration
	// Endless is how long a piece of work may go on, although it makes steps.
	Endless time.Duration
}

// DefaultLimits are those of a daemon.
func DefaultLimits() Limits {
	return Limits{Tick: time.Second, Slow: 10 * time.Second, Hung: time.Minute, Endless: 10 * time.Minute}
}

// sample is what was seen of the process at one time.
type sample struct {
	// Elapsed is the time since the last sample, by a clock that stands still while the machine sleeps.
	Elapsed time.Duration
	// CPU is how much processor time the process has had since.
	CPU time.Duration
	// Runnable says that some thread of the process runs or waits for a processor, beside the one that takes the sample.
	// Blocked says that some thread waits in the kernel and cannot be interrupted, as for a page of a file.
	Runnable, Blocked bool
	// Sections are the states of all sections, always in the same order.
	Sections []State
}

// Health is what is known of a section.
type Health int

const (
	// Healthy work has not lasted long.
	Healthy Health = iota
	// WaitsForDisk is work that has lasted long because of the disk. To end the process would not help.
	WaitsForDisk
	// Slow is other work that has lasted long.
	Slow
	// Hung is work that does not go on although it could.
	Hung
)

// Verdict is the judgement about a section.
type Verdict struct {
	Health Health
	State
	// Section and What name the section and its work.
	Section, What string
	// Lasts is how long the piece of work has lasted, or for WaitsForDisk how long the disk has not answered. The time
	// in which the process or the machine stood still is left out.
	Lasts time.Duration
	// Stuck is how much of that the work could have gone on with its last step.
	Stuck time.Duration
}

func (v Verdict) String() string {
	lasts := v.Lasts.Round(time.Second)
	var b strings.Builder
	switch v.Health {
	case Healthy:
		return ""
	case WaitsForDisk:
		fmt.Fprintf(&b, "the disk has not answered for %v: %s waits for it", lasts, v.What)
	default:
		fmt.Fprintf(&b, "%s has been at work for %v", v.What, lasts)
	}
	if v.Concern != "" {
		fmt.Fprintf(&b, " in %s", v.Concern)
	}
	if v.Object != "" {
		fmt.Fprintf(&b, " on %s", v.Object)
	}
	return b.String()
}

// judge judges by samples whether work goes on. It is a pure function of the limits and of all samples so far.
type judge struct {
	limits Limits
	tracks []track
}

// track is what a judge remembers of a section.
type track struct {
	state State
	// lasts is the time since the work began, disk how long the last step has waited for the disk.
	lasts, disk time.Duration
	// stuck is how long the last step could have gone on, worked how long the whole work could.
	stuck, worked time.Duration
}

// newJudge makes a judge that has seen nothing.
func newJudge(l Limits) *judge { return &judge{limits: l} }

// suspects reports whether some section has made no step between the last two samples: only then a sample needs more than
// the states and the time.
func (j *judge) suspects(sections []State) bool {
	for i, s := range sections {
		if i < len(j.tracks) && s.Busy && j.tracks[i].state.Steps == s.Steps {
			return true
		}
	}
	return false
}

// take takes in a sample and returns the verdicts, one for each section.
func (j *judge) take(s sample) []Verdict {
	if len(j.tracks) != len(s.Sections) {
		j.tracks = make([]track, len(s.Sections))
	}
	verdicts := make([]Verdict, len(s.Sections))
	for i, now := range s.Sections {
		t := &j.tracks[i]
		switch {
		case !now.Busy || now.Turn != t.state.Turn || !t.state.Busy:
			*t = track{}
		case now.Steps != t.state.Steps:
			t.lasts, t.worked = t.lasts+s.lasted(j.limits), t.worked+s.couldWork(now, j.limits)
			t.stuck, t.disk = 0, 0
		default:
			lasted, could := s.lasted(j.limits), s.couldWork(now, j.limits)
			t.lasts, t.worked, t.stuck = t.lasts+lasted, t.worked+could, t.stuck+could
			if now.Disk || s.Blocked && !s.Runnable {
				t.disk += lasted
			}
		}
		t.state = now
		verdicts[i] = t.verdict(j.limits)
	}
	return verdicts
}

// lasted is how much of the time since the last sample the process was there. A sample that is late says that the process
// was stopped, that the machine slept or that there was no processor for it.
func (s *sample) lasted(l Limits) time.Duration {
	if s.Elapsed > 2*l.Tick {
		return 0
	}
	return s.Elapsed
}

// starved is the share of a processor below which a process gets too little of it: one that gets a quarter of a second in a
// second could have worked all of it.
const starved = 4

// couldWork is how much of it some work could have gone on that made no step. While threads want a processor, it depends on
// how much they got. While all sleep, nothing but the work itself keeps it from going on, unless somebody waits for the disk.
func (s *sample) couldWork(state State, l Limits) time.Duration {
	lasted := s.lasted(l)
	switch {
	case state.Disk:
		return 0
	case s.Runnable:
		return min(starved*s.CPU, lasted)
	case s.Blocked:
		return 0
	}
	return lasted
}

func (t *track) verdict(l Limits) Verdict {
	v := Verdict{State: t.state, Lasts: t.lasts, Stuck: t.stuck}
	switch {
	case t.stuck >= l.Hung || t.worked >= l.Endless:
		v.Health = Hung
	case t.lasts < l.Slow:
	case t.disk > t.lasts/2:
		v.Health, v.Lasts = WaitsForDisk, t.disk
	default:
		v.Health = Slow
	}
	return v
}
