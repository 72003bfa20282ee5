package untrusted

import "github.com/moby/sys/mountinfo"

// Outermost returns those of some mounts that are not in another one of them. Who unmounts them, detached, unmounts the others too, and
// needs no path through what is mounted: a user whose files that are could put a symlink in it at any moment, and root would unmount
// something else of the host.
func Outermost(mounts []*mountinfo.Info) (out []*mountinfo.Info) {
	ids := make(map[int]bool, len(mounts))
	for _, m := range mounts {
		ids[m.ID] = true
	}
	for _, m := range mounts {
		if !ids[m.Parent] {
			out = append(out, m)
		}
	}
	return out
}
