package aside

import "slices"

// enough is how many objects of one owner have to hang before the owner and all the others are set aside.
const enough = 2

// withOwners returns the entries with those for owners whose objects hang one after the other: each of a Job's thousand pods would
// cost a start otherwise. The owner is set aside, so that there will be no more of them, and with it those that it controls
// already, from the concerns that hung. Owners of owners are found in the same way.
func withOwners(entries []Entry, stored Stored, version string) ([]Entry, error) {
	for _, resource := range []string{"pods", "jobs.batch"} {
		byOwner := map[Object][]int{} // the entries of what has hung itself
		var owners []Object           // in the order of their first entries
		for i, e := range entries {
			if resourceOf(e.Key) != resource || e.Hangs == 0 || e.Pending || e.UID == "" {
				continue
			}
			owner, err := stored.Controller(e.Key, parents[resource].Key)
			if err != nil {
				return entries, err
			}
			if owner.Key == "" {
				continue
			}
			if byOwner[owner] == nil {
				owners = append(owners, owner)
			}
			byOwner[owner] = append(byOwner[owner], i)
		}
		for _, owner := range owners {
			var err error
			if entries, err = withOwner(entries, byOwner[owner], owner, stored, version); err != nil {
				return entries, err
			}
		}
	}
	return entries, nil
}

// withOwner does that for one owner. hung are the entries of those of its objects that have hung themselves.
func withOwner(entries []Entry, hung []int, owner Object, stored Stored, version string) ([]Entry, error) {
	var keys, concerns []string
	var last Entry
	for _, i := range hung {
		e := &entries[i]
		if !slices.Contains(keys, e.Key) {
			keys = append(keys, e.Key)
		}
		if e.Active() && !slices.Contains(concerns, e.Concern) {
			concerns = append(concerns, e.Concern)
		}
		if e.Active() && e.Owner == "" && !e.At.Before(last.At) {
			last = *e // the owner has not been set aside for that yet
		}
	}
	if last.Key == "" || len(keys) < enough {
		return entries, nil
	}
	resource := resourceOf(last.Key)
	controlled, err := stored.Controlled(owner, resource)
	if err != nil {
		return entries, err
	}
	for _, i := range hung {
		entries[i].Owner = owner.Key
	}
	entries, again := hangOwner(entries, owner, last, version)
	known := map[[2]string]int{}
	for i, e := range entries {
		known[[2]string{e.Concern, e.Key}] = i
	}
	for _, concern := range concerns {
		for _, o := range controlled {
			i, ok := known[[2]string{concern, o.Key}]
			switch {
			case !ok:
				entries = append(entries, Entry{
					Concern: concern, Key: o.Key, UID: o.UID, Owner: owner.Key, Version: version, At: last.At, Told: true,
				})
			case again:
				entries[i].Released = false
			}
		}
	}
	return entries, nil
}

// hangOwner returns the entries after an object of an owner has hung, and whether the owner is set aside because of that.
func hangOwner(entries []Entry, owner Object, last Entry, version string) (now []Entry, again bool) {
	resource := resourceOf(last.Key)
	concern := parents[resource].Concern
	i := slices.IndexFunc(entries, func(e Entry) bool { return e.Key == owner.Key && e.of(concern) })
	if i < 0 {
		return append(entries, Entry{
			Concern: concern, Key: owner.Key, UID: owner.UID, For: resource, Hangs: 1, Version: version, At: last.At,
		}), true
	}
	e := &entries[i]
	if e.Active() && e.Hangs > 0 {
		return entries, false
	}
	e.UID, e.For, e.Hangs, e.Version, e.At = owner.UID, resource, e.Hangs+1, version, last.At
	e.Released, e.Pending, e.Told, e.Owner = false, false, false, ""
	return entries, true
}

// releaseOwned returns the entries after an owner was released: what was set aside with it is as well, but what has hung too
// often itself.
func releaseOwned(entries []Entry, owner string) (now []Entry) {
	for owners := []string{owner}; len(owners) > 0; owners = owners[1:] {
		now = nil
		for _, e := range entries {
			switch {
			case e.Owner != owners[0] || e.Final():
			case e.with():
				continue
			default:
				e.Released, e.Owner = true, ""
				owners = append(owners, e.Key)
			}
			now = append(now, e)
		}
		entries = now
	}
	return now
}
