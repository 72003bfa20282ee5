package job

import (
	"maps"
	"slices"
)

// remembered is how many failures are kept: doubling a back-off more often than that exceeds every cap.
const remembered = 64

// Memory is what has to be known about pods that may be gone, so that a restart of the daemon changes no back-off. It
// is stored with the Job, as JSON, in the transaction that counts the pods. The zero value is that of a new Job. All
// times are Unix seconds.
type Memory struct {
	// LastSuccess is the latest finish time of a succeeded pod.
	LastSuccess int64 `json:"lastSuccess,omitempty"`
	// Failures are the finish times, in ascending order, of the latest failed pods that ended after LastSuccess.
	Failures []int64 `json:"failures,omitempty"`
	// Grown is, by index, what the next pod's memory depends on; -1 is for a Job without indexes. It outlives the end of
	// the Job, for a retry. The map is never written.
	Grown map[int32]Growth `json:"grown,omitempty"`
}

func (m *Memory) succeeded(at int64) {
	if at <= m.LastSuccess {
		return
	}
	m.LastSuccess = at
	n, _ := slices.BinarySearch(m.Failures, at+1)
	if m.Failures = slices.Delete(m.Failures, 0, n); len(m.Failures) == 0 {
		m.Failures = nil
	}
}

func (m *Memory) failed(at int64) {
	if at <= m.LastSuccess {
		return
	}
	n, _ := slices.BinarySearch(m.Failures, at+1)
	m.Failures = slices.Insert(m.Failures, n, at)
	if len(m.Failures) > remembered {
		m.Failures = slices.Delete(m.Failures, 0, 1)
	}
}

func (m *Memory) clone() Memory {
	return Memory{LastSuccess: m.LastSuccess, Failures: slices.Clone(m.Failures), Grown: m.Grown}
}

func (m *Memory) equal(o *Memory) bool {
	return m.LastSuccess == o.LastSuccess && slices.Equal(m.Failures, o.Failures) &&
		maps.EqualFunc(m.Grown, o.Grown, Growth.equal)
}
