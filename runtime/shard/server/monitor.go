package server

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/internal/files"
)

// monitorSlack is by how many nanoseconds the Go runtime's monitor may sleep longer than it asks for.
const monitorSlack = 1_000_000

// slackFile, in the directory of a thread, is its timer slack in nanoseconds.
const slackFile = "timerslack_ns"

// calmMonitor lets the thread by which the Go runtime watches all others sleep longer. It wakes up every 20 microseconds
// while goroutines run and make system calls, and this was a fifth of the processor time of a shard whose containers
// come and go. What it does is not urgent here: where system calls block all processors, a goroutine that could run
// waits a millisecond longer. Where this cannot be done nothing is lost.
//
// It returns the slack of the process, 0 if that is not known. A thread may have been started by the monitor, and then has
// the monitor's slack until it sets another.
func calmMonitor() int {
	content, err := files.Read(filepath.Join("/proc/self", slackFile)) // that of the first thread
	own, _ := strconv.Atoi(strings.TrimSpace(string(content)))
	if monitor := monitorThread(); err == nil && monitor != "" {
		_ = files.Write(filepath.Join("/proc", monitor, slackFile), []byte(strconv.Itoa(monitorSlack)), 0)
	}
	return own
}

// setSlack sets the slack of the calling thread and of the processes that it starts. 0 leaves it as it is.
func setSlack(nanoseconds int) {
	if nanoseconds > 0 {
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(nanoseconds), 0, 0, 0)
	}
}

// monitorThread returns the ID of the first thread that the Go runtime has started, which is its monitor.
func monitorThread() string {
	threads, err := os.Open("/proc/self/task")
	if err != nil {
		return ""
	}
	defer threads.Close()
	ids, err := threads.Readdirnames(2) // in the order in which they were started
	if err != nil || len(ids) < 2 {
		return ""
	}
	return ids[1]
}
