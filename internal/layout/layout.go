// Package layout names what a daemon keeps on the host, below two directories: the root (--root), which survives a reboot,
// and the state directory (--state), which belongs to one boot. They may be one and the same.
//
// It only names things: each file is made, read and removed by the package that owns it, except for what `jobd clean`
// removes, which is listed here as well. A new file is a method and a line in a table; a test fails when the line is
// missing.
package layout

import (
	"path/filepath"
	"slices"
)

// Where they are unless the configuration says otherwise.
const (
	DefaultRoot  = "/var/lib/jobd"
	DefaultState = "/run/jobd"
)

// entry is something that lies directly in a root or state directory.
type entry struct {
	pattern string // as of filepath.Match
	// mounts says that something may be mounted in there, which has to be unmounted before anything is removed.
	mounts bool
}

// own reports whether a name is one of the entries.
func own(entries []entry, name string) bool {
	return slices.ContainsFunc(entries, func(e entry) bool {
		matched, _ := filepath.Match(e.pattern, name)
		return matched
	})
}

func mounts(dir string, entries []entry) []string {
	var out []string
	for _, e := range entries {
		if e.mounts {
			out = append(out, filepath.Join(dir, e.pattern))
		}
	}
	return out
}
