package submit

import "time"

// Patience is how long a server may be out of reach before a command gives up.
const Patience = time.Minute

// contact is whether the server that is followed answers.
type contact struct {
	lost bool
	over <-chan time.Time // when patience with it is over; nil while it answers
}

// take takes in that the server answers, or why it does not, and says so if that is new.
func (c *contact) take(err error, notice func(format string, args ...any)) {
	switch {
	case err == nil && c.lost:
		*c = contact{}
		notice("the server answers again")
	case err != nil && !c.lost:
		*c = contact{true, time.After(Patience)}
		notice("the server does not answer, trying again: %v", err)
	}
}
