package jobset

import "github.com/jobd/jobd/api/jobset"

// pause pauses the Jobs that go on if the JobSet is paused, and lets them go on if it is not.
func (d *decision) pause() {
	_, paused := jobset.Paused(d.js)
	for i := range d.js.Spec.ReplicatedJobs {
		g := d.r.of(d.js.Spec.ReplicatedJobs[i].Name)
		if g.paused == 0 && !paused || int(g.paused) == len(g.running)+len(g.suspended) && paused {
			continue
		}
		other := set{}
		for _, of := range []set{g.running, g.suspended} {
			for uid, j := range of {
				if j.paused != paused {
					other[uid] = j
				}
			}
		}
		some, more := other.first(d.room)
		d.Pause = append(d.Pause, some...)
		d.take(len(some), more)
	}
}
