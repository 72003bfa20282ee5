package store

// Invitation lets whoever follows the store take part in the commit of others, with what follows from their changes: one
// commit, where there would be two.
type Invitation struct {
	*request
	offered *Tx
}

// Invitations are sent when a group of transactions that has changed something is about to be committed, if somebody
// receives at that moment. The receiver has to call Update or Decline of each at once, since all writers wait for it.
func (s *Store) Invitations() <-chan *Invitation { return s.invitations }

// Missed receives after commits of changes in which nobody took part by an invitation.
func (s *Store) Missed() <-chan struct{} { return s.missed }

// Update is Store.Update with the last transaction of the group, which sees what the others have written. If it fails, the
// others are committed without it.
func (i *Invitation) Update(fn func(*Tx) error) error { return i.run(i.offered, fn) }

// Decline lets the group be committed without further changes.
func (i *Invitation) Decline() { i.ran <- false }

// invite lets the follower add to a group, unless it is busy, and reports whether it has.
func (s *Store) invite(g *group) (joined bool, err error) {
	i := &Invitation{newRequest(), newTx(newSnapshot(g.btx), g.watch, g.notes)}
	i.follower = true
	select {
	case s.invitations <- i:
	default:
		return false, nil
	}
	return g.take(i.request, i.offered)
}

// miss tells the follower of a commit in which it had no part.
func (s *Store) miss() {
	select {
	case s.missed <- struct{}{}:
	default: // it has yet to look at an earlier one
	}
}
