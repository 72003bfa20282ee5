package forecast

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/core"
	wire "github.com/jobd/jobd/api/forecast"
	"github.com/jobd/jobd/daemon/node"
)

// Plan is who is expected to run on a machine, and when.
type Plan struct {
	// Starts are when pods that wait are expected to start; those of which nobody knows are missing.
	Starts map[types.UID]wire.Expected

	plan
	// unknown are the resources that somebody waits for of whom nobody knows when it gets them.
	unknown map[corev1.ResourceName]bool
}

// Ahead is for how many pods that wait it is said when they start: those that come first in the queue.
const Ahead = 300

// NewPlan looks ahead. estimate says what is known of the pods of a Job beside their deadlines.
//
// Each in turn is given the earliest time at which it fits, beside what runs then and those before it: so nobody is expected to start
// earlier because of a pod behind it, nor later. The only thing that is looked at is the room: requests, and how many pods there may be.
func NewPlan(o node.Outlook, estimate func(types.UID) Runs, now time.Time) *Plan {
	p := &Plan{Starts: map[types.UID]wire.Expected{}, unknown: map[corev1.ResourceName]bool{}}
	p.plan = plan{o: o, now: now, points: []point{{at: now, free: node.Resources{}, pods: o.MaxPods}}}
	for name, amount := range o.Allocatable {
		p.points[0].free[name] = amount
	}
	for i := range o.Running {
		r := &o.Running[i]
		ends, basis, runs := end(r, estimate(r.UID), now, now)
		p.take(r, now, ends)
		p.note(ends, basis, runs)
	}
	for i := range o.Waiting {
		w := &o.Waiting[i]
		runs := estimate(w.UID)
		at, ok := p.room(w, runs, now)
		if !ok { // those behind it may have to leave it what it needs, for nobody knows how long
			for name := range w.Requests {
				p.unknown[name] = true
			}
			continue
		}
		basis, n := p.sure(at)
		p.Starts[w.UID] = *expected(at, basis, n)
		ends, basis, n := end(w, runs, at, now)
		p.take(w, at, ends)
		p.note(ends, basis, n)
	}
	return p
}

// room returns when there is room for a pod behind those that it was looked for so far, at a time or later; false if nobody knows.
func (p *Plan) room(w *node.Outlined, runs Runs, from time.Time) (time.Time, bool) {
	for name := range w.Requests {
		if p.unknown[name] {
			return time.Time{}, false
		}
	}
	return p.earliest(w, runs, from)
}

// From returns when a pod is expected to start that does not wait for room yet, but will from a time on, behind all that do now; nil if
// nobody knows. It takes nothing.
func (p *Plan) From(w node.Outlined, runs Runs, from wire.Expected) *wire.Expected {
	if p.o.More > 0 && len(w.Requests) > 0 {
		return nil // more wait than are looked at
	}
	at, ok := p.room(&w, runs, from.At.Time)
	switch {
	case !ok:
		return nil
	case !at.After(from.At.Time):
		return &from
	}
	basis, n := p.sure(at)
	return Later(&from, expected(at, basis, n))
}

// InWindow returns when something is expected to start that does so only while its window is open; nil is one that always is.
func InWindow(at wire.Expected, w *core.Window) wire.Expected {
	if open, until := w.At(at.At.Time); !open {
		return wire.Expected{At: metav1.NewTime(until), Basis: wire.Window}
	}
	return at
}

// end returns when a pod that runs from some time on ends, the zero time if nobody knows, as of one that is frozen, and how sure that is.
func end(p *node.Outlined, runs Runs, from, now time.Time) (ends time.Time, basis string, n int) {
	if p.Frozen {
		return time.Time{}, "", 0
	}
	elapsed := time.Duration(0)
	if !p.Started.IsZero() {
		elapsed = max(0, now.Sub(p.Started)-p.PausedFor)
	}
	if left, ok := runs.Left(elapsed); ok {
		ends, basis, n = from.Add(left), wire.History, len(runs)
	}
	limit := p.Ends
	if limit.IsZero() && p.Limit > 0 {
		limit = from.Add(p.Limit)
	}
	if !limit.IsZero() && (ends.IsZero() || limit.Before(ends)) {
		ends, basis, n = limit, wire.Deadline, 0
	}
	if !ends.IsZero() && ends.Before(now) { // it is about to
		ends = now
	}
	return ends, basis, n
}

// plan is what is free from some times on.
type plan struct {
	o      node.Outlook
	now    time.Time
	points []point // in order
	ends   []known
}

type point struct {
	at   time.Time
	free node.Resources
	pods int
}

// known is an expected end.
type known struct {
	at    time.Time
	basis string
	runs  int
}

func (p *plan) note(at time.Time, basis string, runs int) {
	if !at.IsZero() {
		p.ends = append(p.ends, known{at, basis, runs})
	}
}

// sure returns how sure what is expected by some time is: as sure as the least sure of what ends until then.
func (p *plan) sure(at time.Time) (basis string, runs int) {
	basis = wire.Deadline
	for _, e := range p.ends {
		if e.at.After(at) || e.basis == wire.Deadline {
			continue
		}
		if basis == wire.Deadline || e.runs < runs {
			runs = e.runs
		}
		basis = e.basis
	}
	return basis, runs
}

// split makes sure that a point is at some time, and returns which one.
func (p *plan) split(at time.Time) int {
	i, found := slices.BinarySearchFunc(p.points, at, func(p point, at time.Time) int { return p.at.Compare(at) })
	if found {
		return i
	}
	before := p.points[max(0, i-1)]
	free := node.Resources{}
	for name, amount := range before.free {
		free[name] = amount
	}
	p.points = slices.Insert(p.points, i, point{at, free, before.pods})
	return i
}

// take takes what a pod needs from a time on, until another one or, if that is zero, for ever.
func (p *plan) take(w *node.Outlined, from, until time.Time) {
	first := p.split(from)
	last := len(p.points)
	if !until.IsZero() {
		if !until.After(from) {
			return
		}
		last = p.split(until)
	}
	for i := first; i < last; i++ {
		for name, amount := range w.Requests {
			p.points[i].free[name] -= amount
		}
		p.points[i].pods -= w.Pods
	}
}

// earliest returns when a pod fits for as long as it is expected to run, at a time or later; false for never.
func (p *plan) earliest(w *node.Outlined, runs Runs, from time.Time) (time.Time, bool) {
	first, found := slices.BinarySearchFunc(p.points, from, func(p point, at time.Time) int { return p.at.Compare(at) })
	if !found {
		first = max(0, first-1)
	}
	for i := first; i < len(p.points); i++ {
		at := p.points[i].at
		if at.Before(from) {
			at = from
		}
		until, _, _ := end(w, runs, at, p.now)
		fits := true
		for j := i; fits && j < len(p.points) && (until.IsZero() || p.points[j].at.Before(until)); j++ {
			fits = p.fits(&p.points[j], w)
			if !fits {
				i = max(i, j) // nor does it fit from before that on
			}
		}
		if fits {
			return at, true
		}
	}
	return time.Time{}, false
}

func (p *plan) fits(at *point, w *node.Outlined) bool {
	if at.pods < w.Pods {
		return false
	}
	if p.o.Allocatable == nil {
		return true
	}
	for name, amount := range w.Requests {
		if at.free[name] < amount {
			return false
		}
	}
	return true
}
