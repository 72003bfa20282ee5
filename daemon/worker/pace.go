package worker

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// measureInterval is how often what a pod has on the disk is measured, if that is quick.
	measureInterval = 5 * time.Second
	// measureShare is how many times as long as all pods of a namespace take to measure it is until that is done again: they get a fifth
	// of a processor.
	measureShare = 5
)

// pace knows how long pods take to measure, which is theirs to decide: by very many files, or by a million descriptors of one. No limit of
// theirs counts that, as it is the daemon's time.
type pace struct {
	mu     sync.Mutex
	spaces map[string]*measured // by namespace
}

// measured is how long the pods of a namespace took last, and all of them together.
type measured struct {
	pods map[types.UID]time.Duration
	all  time.Duration
}

// took notes how long a pod took. Nothing is kept of one that took no time.
func (p *pace) took(namespace string, pod types.UID, t time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.spaces[namespace]
	if s == nil {
		if t <= 0 {
			return
		}
		if p.spaces == nil {
			p.spaces = map[string]*measured{}
		}
		s = &measured{pods: map[types.UID]time.Duration{}}
		p.spaces[namespace] = s
	}
	s.all += t - s.pods[pod]
	if s.pods[pod] = t; t <= 0 {
		delete(s.pods, pod)
	}
	if len(s.pods) == 0 {
		delete(p.spaces, namespace)
	}
}

// interval returns how long it is until a pod is measured again.
func (p *pace) interval(namespace string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.spaces[namespace]; s != nil {
		return max(measureInterval, measureShare*s.all)
	}
	return measureInterval
}

// MeasureInterval returns how often the pods of a namespace are to be measured.
func (p *Pool) MeasureInterval(namespace string) time.Duration { return p.pace.interval(namespace) }
