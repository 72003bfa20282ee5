package watchdog

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/internal/files"
)

// cpuTime returns how much processor time this process has had.
func cpuTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

const (
	// looks is how often the threads are looked at for one sample, and pause the time before each.
	looks = 3
	pause = 10 * time.Millisecond
)

// threads reports whether threads of this process beside the caller's can run, and whether some wait in the kernel and cannot
// be interrupted. Those of an idle process are awake for a moment now and then, above all when they have just woken the
// caller. So it is only reported what is so for a while. It blocks its thread, so that nobody wakes it again.
func threads() (runnable, blocked bool) {
	runnable, blocked = true, true
	for range looks {
		_ = unix.Nanosleep(&unix.Timespec{Nsec: pause.Nanoseconds()}, nil)
		r, b := threadsNow()
		runnable, blocked = runnable && r, blocked && b
	}
	return runnable, blocked
}

// threadsNow does the same for one moment. Nothing is known if /proc cannot be read: then all seem to sleep.
func threadsNow() (runnable, blocked bool) {
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
		stat, err := files.Read(dir + e.Name() + "/stat")
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
