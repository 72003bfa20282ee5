package forecast

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/core"
	wire "github.com/jobd/jobd/api/forecast"
	"github.com/jobd/jobd/daemon/prospect"
	"github.com/jobd/jobd/daemon/requests"
)

// Plan is who is expected to run on a machine, and when.
type Plan struct {
	// Starts are when pods that wait are expected to start; those of which nobody knows are missing.
	Starts map[types.UID]wire.Expected

	plan
	// unknown are the resources that a pod waits for without anybody knowing when it gets them.
	unknown map[corev1.ResourceName]bool
}

// MostAhead is for how many pods that wait it is said when they start: those that come first in the queue.
const MostAhead = 300

// NewPlan looks ahead. estimate says what is known of the pods of a Job beside their deadlines.
//
// Each in turn is given the earliest time at which it fits, beside what runs then and those before it: so nobody is expected to start
// earlier because of a pod behind it, nor later. The only thing that is looked at is the room: requests, and how many pods there may be.
func NewPlan(o prospect.Outlook, estimate func(types.UID) Runs, now time.Time) *Plan {
	p := &Plan{Starts: map[types.UID]wire.Expected{}, unknown: map[corev1.ResourceName]bool{}}
	p.plan = newPlan(o, now)
	for i := range o.Running {
		r := &o.Running[i]
		ends, basis, runs := leftOf(r, estimate(r.UID), now).from(now)
		p.take(r, now, ends)
		p.note(ends, basis, runs)
	}
	for i := range o.Waiting {
		w := &o.Waiting[i]
		left := leftOf(w, estimate(w.UID), now)
		at, ok := p.room(w, left, now)
		if !ok { // those behind it may have to leave it what it needs, for nobody knows how long
			for name := range w.Requests {
				p.unknown[name] = true
			}
			continue
		}
		basis, n := p.sure(at)
		p.Starts[w.UID] = *expected(at, basis, n)
		ends, basis, n := left.from(at)
		p.take(w, at, ends)
		p.note(ends, basis, n)
	}
	return p
}

// room returns when there is room for a pod behind those that it was looked for so far, at a time or later; false if nobody knows.
func (p *Plan) room(w *prospect.Outlined, left left, from time.Time) (time.Time, bool) {
	for name := range w.Requests {
		if p.unknown[name] {
			return time.Time{}, false
		}
	}
	return p.earliest(w, left, from)
}

// From returns when a pod is expected to start that does not wait for room yet, but will from a time on, behind all that do now; nil if
// nobody knows. It takes nothing.
func (p *Plan) From(w prospect.Outlined, runs Runs, from wire.Expected) *wire.Expected {
	if p.o.More > 0 && len(w.Requests) > 0 {
		return nil // more wait than are looked at
	}
	at, ok := p.room(&w, leftOf(&w, runs, p.now), from.At.Time)
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

// left is what is known of how long a pod runs from some time on.
type left struct {
	of    *prospect.Outlined
	now   time.Time
	takes time.Duration // as earlier runs did
	known bool          // that
	runs  int
}

func leftOf(p *prospect.Outlined, runs Runs, now time.Time) left {
	elapsed := time.Duration(0)
	if !p.Started.IsZero() {
		elapsed = max(0, now.Sub(p.Started)-p.PausedFor)
	}
	takes, known := runs.Left(elapsed)
	return left{p, now, takes, known, len(runs)}
}

// from returns when the pod ends that runs from some time on, the zero time if nobody knows, as of one that is frozen, and how sure that is.
func (l left) from(from time.Time) (ends time.Time, basis string, n int) {
	if l.of.Frozen {
		return time.Time{}, "", 0
	}
	if l.known {
		ends, basis, n = from.Add(l.takes), wire.History, l.runs
	}
	limit := l.of.Ends
	if limit.IsZero() && l.of.Limit > 0 {
		limit = from.Add(l.of.Limit)
	}
	if !limit.IsZero() && (ends.IsZero() || limit.Before(ends)) {
		ends, basis, n = limit, wire.Deadline, 0
	}
	if !ends.IsZero() && ends.Before(l.now) { // it is about to
		ends = l.now
	}
	return ends, basis, n
}

// plan is what is free from some times on. A pod may take part of each of a thousand points, and three hundred are looked for in all of them,
// so that resources are numbers here.
type plan struct {
	o      prospect.Outlook
	now    time.Time
	number map[corev1.ResourceName]int
	points []point // in order
	ends   []known
}

type point struct {
	at   time.Time
	free []int64 // by the number of the resource
	pods int
}

// known is an expected end.
type known struct {
	at    time.Time
	basis string
	runs  int
}

func newPlan(o prospect.Outlook, now time.Time) plan {
	p := plan{o: o, now: now, number: map[corev1.ResourceName]int{}}
	count := func(all requests.Resources) {
		for name := range all {
			if _, ok := p.number[name]; !ok {
				p.number[name] = len(p.number)
			}
		}
	}
	count(o.Allocatable)
	for _, pods := range [][]prospect.Outlined{o.Running, o.Waiting} {
		for i := range pods {
			count(pods[i].Requests)
		}
	}
	free := make([]int64, len(p.number))
	for name, amount := range o.Allocatable {
		free[p.number[name]] = amount
	}
	p.points = []point{{at: now, free: free, pods: o.MaxPods}}
	return p
}

// amount is how much of a resource a pod requests.
type amount struct {
	of int
	is int64
}

// amounts returns what a pod requests; false if the machine has nothing of a resource that it requests.
func (p *plan) amounts(w *prospect.Outlined) ([]amount, bool) {
	all := make([]amount, 0, len(w.Requests))
	for name, is := range w.Requests {
		i, ok := p.number[name]
		if !ok && is > 0 {
			return nil, false
		}
		if ok {
			all = append(all, amount{i, is})
		}
	}
	return all, true
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
	p.points = slices.Insert(p.points, i, point{at, slices.Clone(before.free), before.pods})
	return i
}

// take takes what a pod needs from a time on, until another one or, if that is zero, for ever.
func (p *plan) take(w *prospect.Outlined, from, until time.Time) {
	first := p.split(from)
	last := len(p.points)
	if !until.IsZero() {
		if !until.After(from) {
			return
		}
		last = p.split(until)
	}
	all, _ := p.amounts(w) // each was counted
	for i := first; i < last; i++ {
		for _, a := range all {
			p.points[i].free[a.of] -= a.is
		}
		p.points[i].pods -= w.Pods
	}
}

// earliest returns when a pod fits for as long as it is expected to run, at a time or later; false for never.
func (p *plan) earliest(w *prospect.Outlined, left left, from time.Time) (time.Time, bool) {
	needs, ok := p.amounts(w)
	if !ok && p.o.Allocatable != nil {
		return time.Time{}, false
	}
	first, found := slices.BinarySearchFunc(p.points, from, func(p point, at time.Time) int { return p.at.Compare(at) })
	if !found {
		first = max(0, first-1)
	}
	for i := first; i < len(p.points); i++ {
		at := p.points[i].at
		if at.Before(from) {
			at = from
		}
		until, _, _ := left.from(at)
		fits := true
		for j := i; fits && j < len(p.points) && (until.IsZero() || p.points[j].at.Before(until)); j++ {
			fits = p.fits(&p.points[j], w.Pods, needs)
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

func (p *plan) fits(at *point, pods int, needs []amount) bool {
	if at.pods < pods {
		return false
	}
	if p.o.Allocatable == nil {
		return true
	}
	for _, a := range needs {
		if at.free[a.of] < a.is {
			return false
		}
	}
	return true
}
