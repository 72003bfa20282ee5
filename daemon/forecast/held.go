package forecast

import (
	"cmp"
	"slices"
	"time"

	wire "github.com/jobd/jobd/api/forecast"
)

// Now is what is there already.
func Now(now time.Time) *wire.Expected { return expected(now, wire.Deadline, 0) }

// Later returns when both of two things are expected: at the later time, and no surer than the less sure of them. One of which nobody
// knows is nil, and so is the answer then.
func Later(a, b *wire.Expected) *wire.Expected {
	if a == nil || b == nil {
		return nil
	}
	sure := func(e *wire.Expected) int {
		return slices.Index([]string{wire.Deadline, wire.Window, wire.StartTime, wire.Rate, wire.History}, e.Basis)
	}
	first, last := a, b
	if first.At.After(last.At.Time) {
		first, last = b, a
	}
	out := *last
	switch guessed := func(e *wire.Expected) bool { return e.Basis == wire.Rate || e.Basis == wire.History }; {
	case !guessed(first): // it is over by then, at the latest
	case !guessed(last), cmp.Or(cmp.Compare(last.Runs, first.Runs), sure(first)-sure(last)) > 0:
		out.Basis, out.Runs = first.Basis, first.Runs
	}
	return &out
}

// After returns when something is expected to have taken as long as it did before, from its start on: until it was, or its limit, if it
// has one; nil if nobody knows. A limit of 0 is none.
func After(start *wire.Expected, runs Runs, limit time.Duration) *wire.Expected {
	if start == nil {
		return nil
	}
	var e *wire.Expected
	took, known := runs.Left(0)
	switch {
	case limit > 0 && (!known || limit < took):
		e = expected(start.At.Add(limit), wire.Deadline, 0)
	case known:
		e = expected(start.At.Add(took), wire.History, len(runs))
	}
	return Later(start, e)
}

// Places are when the places of a concurrency group are expected to be free, the first one first.
type Places []wire.Expected

// NewPlaces returns the places of a group, with when each of those is expected to end that have one; nil if nobody knows. Places that
// nobody knows of are left out: they may be free earlier than the others, or never.
func NewPlaces(limit int, holders []*wire.Expected, now time.Time) Places {
	var ends Places
	for _, e := range holders {
		if e != nil {
			ends = append(ends, *e)
		}
	}
	slices.SortStableFunc(ends, func(a, b wire.Expected) int { return a.At.Compare(b.At.Time) })
	if over := len(holders) - limit; over > 0 { // as many have to end before there is a place
		return ends[min(len(ends), over):]
	}
	for range min(limit, maxPlaces) - len(holders) {
		ends = slices.Insert(ends, 0, *Now(now))
	}
	return ends
}

// maxPlaces is how many free places are looked at.
const maxPlaces = 1000

// First returns when the next place is expected to be free; nil if nobody knows.
func (p Places) First() *wire.Expected {
	if len(p) == 0 {
		return nil
	}
	first := p[0]
	return &first
}

// Take gives the first place to one that is expected to end at some time; nil if nobody knows.
func (p *Places) Take(until *wire.Expected) {
	if len(*p) == 0 {
		return
	}
	*p = (*p)[1:]
	if until == nil {
		return
	}
	at, _ := slices.BinarySearchFunc(*p, until, func(e wire.Expected, until *wire.Expected) int { return e.At.Compare(until.At.Time) })
	*p = slices.Insert(*p, at, *until)
}
