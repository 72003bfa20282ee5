package watchdog

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/smallfile"
)

// cpuTime returns how much processor time this process has had.
func cpuTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// threads reports whether some thread of this process beside the caller's can run, and whether some waits in the kernel and
// cannot be interrupted. Nothing is known if /proc cannot be read: then all seem to sleep.
func threads() (runnable, blocked bool) {
	const dir = "/proc/self/task/"
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, false
	}
	own := strconv.Itoa(unix.Gettid())
	for _, e := range entries {
		if e.Name() == own {
			continue
		}
		stat, err := smallfile.Read(dir + e.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		switch stateOf(stat) {
		case 'R':
			runnable = true
		case 'D':
			blocked = true
		}
	}
	return runnable, blocked
}

// stateOf returns the state in a line of /proc/PID/stat. It follows the name, which may contain anything.
func stateOf(stat []byte) byte {
	if i := bytes.LastIndexByte(stat, ')'); i >= 0 && i+2 < len(stat) {
		return stat[i+2]
	}
	return 0
}
