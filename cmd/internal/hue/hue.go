// Package hue says in which colour a state is shown, so that every view has the same: those of Okabe and Ito, which people of
// all kinds of sight can tell apart, as in api/dashboard/page/style.css.
package hue

import "strings"

// Hue is the colour of a state, by what it means.
type Hue int

// The colours.
const (
	None  Hue = iota // neither good nor bad, and nothing to be done
	Runs             // sky blue
	Waits            // orange
	Good             // green
	Bad              // vermilion
	Held             // purple: somebody, or a rule, keeps it from running
)

// colors are the words for colours of a terminal: one of 16, which the user's theme decides, and one of 256.
var colors = map[Hue]struct{ basic, wide int }{
	None: {2, 245}, Runs: {36, 74}, Waits: {33, 214}, Good: {32, 36}, Bad: {31, 166}, Held: {35, 175},
}

// states are those of Jobs (api/batch) and of pods, in small letters.
var states = map[string]Hue{
	"running": Runs,
	"waiting": Waits, "pending": Waits, "starting": Waits, "restarting": Waits,
	"complete": Good, "completing": Good, "succeeded": Good,
	"failed": Bad, "failing": Bad, "overdue": Bad,
	"suspended": Held, "paused": Held, "preempted": Held,
}

// Of returns the colour of a state, however its word is written.
func Of(state string) Hue { return states[strings.ToLower(state)] }

// Basic is the number of the colour among the 16 of every terminal, with which text is painted: 2 is faint.
func (h Hue) Basic() int { return colors[h].basic }

// Wide is the number of the colour among 256.
func (h Hue) Wide() int { return colors[h].wide }
