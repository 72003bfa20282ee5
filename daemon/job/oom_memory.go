package job

import (
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/podspec"
)

// Growth is how often pods were killed for want of memory, and which of their containers were. It decides how much memory
// the next pod has (batch.OOMMemory).
type Growth struct {
	Kills      int      `json:"kills"`
	Containers []string `json:"containers"` // in ascending order
}

// or returns what is known by both.
func (g Growth) or(o Growth) Growth {
	all := slices.Concat(g.Containers, o.Containers)
	slices.Sort(all)
	return Growth{max(g.Kills, o.Kills), slices.Compact(all)}
}

func (g Growth) equal(o Growth) bool {
	return g.Kills == o.Kills && slices.Equal(g.Containers, o.Containers)
}

// anyIndex is the key in Memory.Grown for a Job without indexes: its pods are interchangeable, so all later ones grow.
const anyIndex = -1

func (r *Record) growthKey(p *pod) int32 {
	if r.spec.indexed {
		return p.index
	}
	return anyIndex
}

// killed notes that a pod was killed for want of memory, if it was, and its Job asks for more after that.
func (r *Record) killed(p *pod, seen *Pod) {
	if !r.spec.grows || len(seen.OOMKilled) == 0 || p.phase != failedPhase || p.is(isOrphan|isLeaving) {
		delete(r.grown, p)
		return
	}
	if r.grown == nil {
		r.grown = map[*pod]Growth{}
	}
	r.grown[p] = Growth{int(seen.OOMKills), nil}.or(Growth{int(oneMore(seen.OOMKills)), seen.OOMKilled})
}

// grow adds to a Memory what the end of a pod says about the memory of the next. This may be repeated.
func (r *Record) grow(m *Memory, p *pod) {
	key := r.growthKey(p)
	if p.phase == succeededPhase && r.spec.indexed {
		if _, ok := m.Grown[key]; ok {
			if m.Grown = maps.Clone(m.Grown); len(m.Grown) == 1 {
				m.Grown = nil
			}
			delete(m.Grown, key)
		}
		return
	}
	g, ok := r.grown[p]
	if !ok || !r.inRange(p) {
		return
	}
	if next := m.Grown[key].or(g); !next.equal(m.Grown[key]) {
		if m.Grown = maps.Clone(m.Grown); m.Grown == nil {
			m.Grown = map[int32]Growth{}
		}
		m.Grown[key] = next
	}
}

// growthOf returns what the next pod of an index grows by, after the failed one that it replaces, nil for none.
func (r *Record) growthOf(index int32, after *pod) Growth {
	if len(r.backoff.Grown)+len(r.grown) == 0 {
		return Growth{}
	}
	if !r.spec.indexed {
		index = anyIndex
	}
	return r.backoff.Grown[index].or(r.grown[after])
}

// growPod gives a new pod the memory that it is to have.
func growPod(pod *corev1.Pod, annotations map[string]string, g Growth) {
	if g.Kills == 0 {
		return
	}
	o := batch.JobOOMMemory(annotations)
	if o == nil {
		return
	}
	o.Grow(&pod.Spec, g.Containers, g.Kills)
	put(&pod.Annotations, batch.OOMKillsAnnotation, strconv.Itoa(g.Kills))
}

// outOfMemory returns the containers of a pod that were killed for want of memory.
func outOfMemory(pod *corev1.Pod) (names []string) {
	for _, list := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range list {
			if end := list[i].State.Terminated; end != nil && end.Reason == podspec.OOMKilled {
				names = append(names, list[i].Name)
			}
		}
	}
	return names
}
