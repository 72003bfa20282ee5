package disk

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/eviction"
)

const (
	// surveyTime is how long the pods are measured before one is evicted by what is known then: the disk fills meanwhile.
	surveyTime = 20 * time.Second
	// surveyed is how many pods are measured at the same moment, and turnTime how long each is in its turn: one whose files take long
	// to count keeps no other one waiting.
	surveyed, turnTime = 2, 10 * time.Millisecond
)

// survey measures what pods use, as far as that is found in time.
type survey struct {
	use func(context.Context, *corev1.Pod) (eviction.Use, error)

	mu sync.Mutex
	// busy are pods whose measurement has not come back, since a file system does not answer.
	busy map[types.UID]bool
}

// take returns what each pod uses, in any order. Of those that could not be measured in time it is a part.
func (s *survey) take(ctx context.Context, pods []*corev1.Pod) (uses []eviction.Use) {
	measuring, cancel := context.WithTimeout(ctx, surveyTime)
	defer cancel()
	late := time.After(surveyTime + time.Second) // for those who only have to see that the time is over
	turns, found := make(chan struct{}, surveyed), make(chan eviction.Use, len(pods))
	missing, waiting := make(map[types.UID]*corev1.Pod, len(pods)), 0
	for _, p := range pods {
		missing[p.UID] = p
		if !s.begin(p.UID) {
			continue
		}
		waiting++
		go func() {
			own := &turn{Context: measuring, turns: turns}
			err := own.Err()
			use := eviction.Use{}
			if err == nil {
				use, err = s.use(own, p)
			}
			own.leave()
			s.end(p.UID) // before it is told, or the next survey could miss it
			use.Pod, use.Partly = p, err != nil
			found <- use
		}()
	}
	for waiting > 0 {
		select {
		case use := <-found:
			waiting--
			delete(missing, use.Pod.UID)
			uses = append(uses, use)
		case <-late:
			waiting = 0
		case <-ctx.Done():
			waiting = 0
		}
	}
	for _, p := range missing {
		uses = append(uses, eviction.Use{Pod: p, Partly: true})
	}
	return uses
}

// begin notes that a pod is being measured, unless it is already.
func (s *survey) begin(pod types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[pod] {
		return false
	}
	if s.busy == nil {
		s.busy = map[types.UID]bool{}
	}
	s.busy[pod] = true
	return true
}

func (s *survey) end(pod types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.busy, pod)
}

// turn is a context whose Err, which is asked all the time while files are counted, waits for the next turn after each.
type turn struct {
	context.Context
	turns chan struct{}

	mu    sync.Mutex
	held  bool
	since time.Time
}

// Err implements context.Context.
func (t *turn) Err() error {
	if err := t.Context.Err(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held && time.Since(t.since) < turnTime {
		return nil
	}
	t.pass()
	select {
	case t.turns <- struct{}{}:
		t.held, t.since = true, time.Now()
	case <-t.Done():
	}
	return t.Context.Err()
}

// leave lets others have the turn.
func (t *turn) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pass()
}

func (t *turn) pass() {
	if t.held {
		t.held = false
		<-t.turns
	}
}
