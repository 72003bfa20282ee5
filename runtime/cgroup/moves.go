package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Moves hides how long the kernel takes to move a process to another group. For the first one after a pause of some
// hundredths of a second it waits until all processors have passed through the scheduler, which takes about 10 ms, and an OCI
// runtime moves a process to each container. It is safe for concurrent use. A nil Moves does nothing.
type Moves struct {
	procs *os.File // of this process's own group
	under atomic.Bool
	last  atomic.Int64 // when a move ended, in ns
	group sync.WaitGroup
}

// movesFast is how long after a move others are certain not to wait.
const movesFast = 5 * time.Millisecond

// OpenMoves finds the group of this process.
func OpenMoves() (*Moves, error) {
	h, err := Find()
	if err != nil {
		return nil, err
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	procs, err := os.OpenFile(filepath.Join(h.main.dir(h.main.group(string(groups))), "cgroup.procs"), os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	return &Moves{procs: procs}, nil
}

// group returns the group of a process in a hierarchy, by the process's /proc/PID/cgroup.
func (h hierarchy) group(groups string) string {
	for line := range strings.Lines(groups) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) < 3 {
			continue
		}
		if h.v2 && parts[0] == "0" || !h.v2 && parts[1] != "" && slices.Contains(h.options, strings.Split(parts[1], ",")[0]) {
			return parts[2]
		}
	}
	return "/"
}

// Expect says that a process is about to be moved: the kernel then waits meanwhile. It moves this process to the group that it is
// in, and does not wait for that.
func (m *Moves) Expect() {
	if m == nil || time.Now().UnixNano()-m.last.Load() < int64(movesFast) || !m.under.CompareAndSwap(false, true) {
		return
	}
	m.group.Go(func() {
		_, _ = m.procs.WriteAt([]byte("0"), 0) // whatever comes of it, the kernel has waited
		m.last.Store(time.Now().UnixNano())
		m.under.Store(false)
	})
}

// Close gives up what OpenMoves has opened.
func (m *Moves) Close() error {
	if m == nil {
		return nil
	}
	m.group.Wait()
	return m.procs.Close()
}
