package server

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The Go runtime's monitor sleeps longer in a shard, and nothing else does: not the containers either, in whatever order
// threads have started threads.
func TestOnlyTheMonitorSleepsLonger(t *testing.T) {
	b := newBed(t, "crun")
	slack := func(pid any) string {
		content, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), slackFile))
		must(t, err)
		return strings.TrimSpace(string(content))
	}
	own := filepath.Join("/proc", monitorThread(), slackFile)
	if err := os.WriteFile(own, []byte(slack(monitorThread())), 0); err != nil {
		t.Skipf("not on this host: %v", err)
	}
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", b.PID()))
	must(t, err)
	monitors := 0
	for _, thread := range threads {
		if slack(thread.Name()) == strconv.Itoa(monitorSlack) {
			monitors++
		}
	}
	if monitors == 0 {
		t.Error("the monitor sleeps as before")
	}
	if got, want := slack(b.PID()), slack("self"); got != want {
		t.Errorf("the first thread of the shard has a slack of %s, want %s", got, want)
	}
	for i := range 4 {
		id := fmt.Sprint("c", i)
		started := b.run(id, "sleep", "1000")
		if got, want := slack(started.PID), slack("self"); got != want {
			t.Errorf("%s has a slack of %s, want %s", id, got, want)
		}
		_, err := b.Delete(b.context(), id)
		must(t, err)
	}
}

// A thread that the monitor has started goes back to the slack of the process, unless that is not known.
func TestSetSlack(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	get := func() int {
		nanoseconds, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
		must(t, err)
		return nanoseconds
	}
	was := get()
	defer setSlack(was)
	setSlack(monitorSlack)
	setSlack(was + 1)
	setSlack(0)
	if is := get(); is != was+1 {
		t.Errorf("got %d, want %d", is, was+1)
	}
}
