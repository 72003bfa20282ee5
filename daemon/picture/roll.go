package picture

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/jobd/jobd/api/picture"
)

// maxLog is how many changes of cells are remembered.
const maxLog = 50_000

// Roll remembers the last picture of a Job, and what has changed of it when: pictures are numbered from 1 on.
type Roll struct {
	last *Drawing
	at   uint64

	parts [parts][]byte // as JSON
	since [parts]uint64 // since when each part is as it is
	log   []changed     // of cells, in the order of the pictures
	from  uint64        // log has all since that picture
}

// Parts of a picture that change on their own.
const (
	jobPart = iota
	streamPart
	histogramsPart
	failuresPart
	progressPart
	parts
)

type changed struct {
	at   uint64
	cell int32
}

// Show takes in how the Job looks now. It returns the number of the picture, which is the last one's if nothing has
// changed.
func (r *Roll) Show(d *Drawing) (uint64, error) {
	next := r.at + 1
	changes := r.last == nil
	for i, part := range []any{d.Job, d.Stream, d.Histograms, d.Failures, d.Progress} {
		text, err := json.Marshal(part)
		if err != nil {
			return 0, err
		}
		if !bytes.Equal(text, r.parts[i]) {
			r.parts[i], r.since[i], changes = text, next, true
		}
	}
	switch {
	case r.last == nil || r.last.Cells.Count != d.Cells.Count || r.last.Cells.Per != d.Cells.Per || r.last.Cells.Longest != d.Cells.Longest,
		len(r.last.Cells.Values) != len(d.Cells.Values):
		r.log, r.from, changes = r.log[:0], next, true
	default:
		for i := range d.states {
			if d.states[i] != r.last.states[i] || d.details[i] != r.last.details[i] {
				r.log = append(r.log, changed{next, int32(i)})
				changes = true
			}
		}
		if extra := len(r.log) - maxLog; extra > 0 {
			r.from = r.log[extra-1].at
			for extra < len(r.log) && r.log[extra].at == r.from {
				extra++
			}
			r.log = slices.Clone(r.log[extra:])
		}
	}
	r.last = d
	if changes {
		r.at = next
	}
	return r.at, nil
}

// At returns the number of the last picture; 0 if there was none.
func (r *Roll) At() uint64 { return r.at }

// Cell returns the state of a cell, and how many indexes it has; false if there is no such cell.
func (r *Roll) Cell(cell int) (state string, per int, ok bool) {
	if cell < 0 || cell >= len(r.last.states) {
		return "", 1, false
	}
	return string(rune(r.last.states[cell])), r.last.Cells.Per, true
}

// Whole returns the last picture.
func (r *Roll) Whole() *picture.Picture {
	p := *r.last.Picture
	return &p
}

// Since returns what has changed since a picture; false if that is not known any more.
func (r *Roll) Since(at uint64) (*picture.Picture, bool) {
	if at > r.at || at < r.from || at == 0 {
		return nil, false
	}
	p := &picture.Picture{APIVersion: picture.APIVersion, Kind: picture.Kind, At: r.last.At, Delta: true}
	if r.since[jobPart] > at {
		p.Job = r.last.Job
	}
	if r.since[streamPart] > at {
		p.Stream = r.last.Stream
	}
	if r.since[histogramsPart] > at {
		p.Histograms = r.last.Histograms
	}
	if r.since[failuresPart] > at {
		p.Failures = r.last.Failures
	}
	if r.since[progressPart] > at {
		p.Progress = r.last.Progress
	}
	var cells []int32
	for _, c := range slices.Backward(r.log) {
		if c.at <= at {
			break
		}
		cells = append(cells, c.cell)
	}
	if len(cells) == 0 {
		return p, true
	}
	slices.Sort(cells)
	cells = slices.Compact(cells)
	p.Changed = &picture.Change{}
	var states, details []byte
	for i, c := range cells {
		if i > 0 && cells[i-1] == c-1 {
			p.Changed.Cells[len(p.Changed.Cells)-1]++
		} else {
			p.Changed.Cells = append(p.Changed.Cells, int(c), 1)
		}
		states, details = append(states, r.last.states[c]), append(details, r.last.details[c])
	}
	p.Changed.States, p.Changed.Details = picture.Runs(states), picture.Runs(details)
	if 6*len(p.Changed.Cells) > r.last.Cells.Count { // all cells are less
		p.Changed, p.Cells = nil, r.last.Cells
	}
	return p, true
}
