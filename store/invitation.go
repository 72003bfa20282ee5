package store

// Invitation lets whoever follows the store take part in the commit of others, with what follows from their changes: one
// commit, where there would be two.
type Invitation struct{ answer chan *request }

// Invitations are sent when a group of transactions that has changed something is about to be committed, if somebody
// receives at that moment. The receiver has to call Update or Decline of each at once, since all writers wait for it.
func (s *Store) Invitations() <-chan *Invitation { return s.invitations }

// Update is Store.Update with the last transaction of the group, which sees what the others have written. If it fails, the
// others are committed without it.
func (i *Invitation) Update(fn func(*Tx) error) error {
	r := newRequest()
	i.answer <- r
	return r.run(<-r.tx, fn)
}

// Decline lets the group be committed without further changes.
func (i *Invitation) Decline() { i.answer <- nil }

// invite lets the follower add to a group, unless it is busy.
func (s *Store) invite(g *group) error {
	i := &Invitation{make(chan *request)}
	select {
	case s.invitations <- i:
	default:
		return nil
	}
	r := <-i.answer
	if r == nil {
		return nil
	}
	return g.add(r)
}
