// Package inotify tells tests how many instances of inotify they have: a user may have no more than 128.
package inotify

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Instances counts those of this process.
func Instances(t *testing.T) (n int) {
	t.Helper()
	fds, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && strings.Contains(to, "inotify") {
			n++
		}
	}
	return n
}
