package worker

import (
	"cmp"
	"slices"
	"time"

	"github.com/jobd/jobd/api/inspection"
)

// step is one step of the work for a pod: its name, in the words of Pool.take, and when it began.
type step struct {
	name  string
	since time.Time
}

// begin says which step of the work for a pod is under way, none if it is empty.
func (p *Pool) begin(w *worker, s step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.step = s
}

// Inspect returns what is done for pods just now. It may be called from any goroutine.
func (p *Pool) Inspect() inspection.Workers {
	is := inspection.Workers{Stuck: p.Stuck()}
	is.Free, is.Waiting, is.Tenants = p.limit.figures()
	p.mu.Lock()
	defer p.mu.Unlock()
	is.Pods = len(p.pods)
	for _, w := range p.pods {
		if w.work == nil || w.step.name == "" {
			continue
		}
		s := inspection.Step{Pod: w.pod.Namespace + "/" + w.pod.Name, Name: w.step.name, Since: w.step.since}
		for _, a := range w.queue {
			s.Queued = append(s.Queued, string(a.Kind))
		}
		is.Steps = append(is.Steps, s)
	}
	slices.SortFunc(is.Steps, func(a, b inspection.Step) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Pod, b.Pod))
	})
	return is
}

// figures returns how many slots are free, how many functions wait for one, and for which tenants that is.
func (l *limiter) figures() (free, waiting int, tenants []inspection.Tenant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.tenants {
		waiting += t.waits()
		tenants = append(tenants, inspection.Tenant{Namespace: t.name, Held: t.held, Lent: t.lent, Waiting: t.waits()})
	}
	slices.SortFunc(tenants, func(a, b inspection.Tenant) int {
		return cmp.Or(cmp.Compare(b.Held+b.Lent, a.Held+a.Lent), cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(a.Namespace, b.Namespace))
	})
	return l.free, waiting, tenants
}
