// Package meter measures what the machine and the containers on it use: readings of their control groups go in, and rates
// come out. It reads only when somebody asks, so that a daemon that nobody asks stays idle.
package meter

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/usage"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/runtime"
)

const (
	// shortest is the shortest time that a rate of processor time is taken over, and how long a measurement is the
	// answer to further questions.
	shortest = time.Second
	// window is the time that rates are taken over if there were questions before.
	window = 10 * time.Second
	// oldest is how old a reading may be to take a rate from: what was used before that says little about now.
	oldest = time.Minute
)

// Containers are the containers of this machine, and what they use.
type Containers interface {
	Containers(ctx context.Context) ([]runtime.Status, error)
	Usage(podUID, id string) (runtime.Usage, error)
}

// Options are what a Meter needs.
type Options struct {
	Containers Containers
	// Machine reads what the whole machine has used.
	Machine func() (Machine, error)
	Node    string // its name
	// Keys returns the keys of the pods that are known, by their UIDs.
	Keys func(ctx context.Context, uids []types.UID) (map[types.UID]string, error)
}

// Meter measures what is used. Its methods may be called from any goroutine.
type Meter struct {
	Options
	turn chan struct{} // holds the fields below while it is empty
	// readings are the earlier ones, the oldest first, that rates may still be taken from.
	readings []reading
	last     *usage.Measurement
}

// New makes a Meter. It reads nothing yet.
func New(o Options) *Meter {
	m := &Meter{Options: o, turn: make(chan struct{}, 1)}
	m.turn <- struct{}{}
	return m
}

// reading is what was used until a time.
type reading struct {
	at         time.Time
	machine    Machine
	containers []container
	byID       map[string]container
}

type container struct {
	runtime.Status
	at   time.Time
	used runtime.Usage
}

// Measure returns what is used now. If nobody has asked within the last minute it takes a second, because a rate needs two
// readings. Those who ask at the same time get the same answer.
func (m *Meter) Measure(ctx context.Context) (*usage.Measurement, error) {
	select {
	case <-m.turn:
		defer func() { m.turn <- struct{}{} }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if m.last != nil && time.Since(m.last.At) < shortest {
		return m.last, nil
	}
	m.readings = slices.DeleteFunc(m.readings, func(r reading) bool { return time.Since(r.at) > oldest })
	if len(m.readings) == 0 {
		first, err := m.read(ctx)
		if err != nil {
			return nil, err
		}
		m.readings = append(m.readings, first)
		select {
		case <-time.After(shortest):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	now, err := m.read(ctx)
	if err != nil {
		return nil, err
	}
	for len(m.readings) > 1 && now.at.Sub(m.readings[1].at) >= window {
		m.readings = m.readings[1:]
	}
	measured := rates(m.readings[0], now)
	measured.Node = m.Node
	if measured.Pods, err = m.named(ctx, measured.Pods); err != nil {
		return nil, err
	}
	m.readings = append(m.readings, now)
	m.last = measured
	return measured, nil
}

func (m *Meter) read(ctx context.Context) (reading, error) {
	machine, err := m.Machine()
	if err != nil {
		return reading{}, err
	}
	r := reading{at: time.Now(), machine: machine, byID: map[string]container{}}
	held, err := m.Containers.Containers(ctx)
	if err != nil {
		return reading{}, fmt.Errorf("list the containers: %w", err)
	}
	for _, c := range held {
		if c.State != runtime.Running {
			continue
		}
		used, err := m.Containers.Usage(c.PodUID, c.ID)
		if err != nil {
			continue // it has ended meanwhile
		}
		c := container{c, time.Now(), used}
		r.containers = append(r.containers, c)
		r.byID[c.ID] = c
	}
	return r, nil
}

// rates returns what is used now, by what had been used before. A container that did not run then is measured from its
// start, and not yet shown if that is too recent.
func rates(before, now reading) *usage.Measurement {
	out := &usage.Measurement{At: now.at, Machine: usage.Use{
		CPU:    rate(now.machine.CPU-before.machine.CPU, now.at.Sub(before.at)),
		Window: now.at.Sub(before.at), Memory: now.machine.WorkingSet,
	}}
	pods := map[string]int{}
	for _, c := range now.containers {
		was, ok := before.byID[c.ID]
		if !ok {
			was = container{at: c.StartedAt}
		}
		over := c.at.Sub(was.at)
		if was.at.IsZero() || over < shortest {
			continue
		}
		i, ok := pods[c.PodUID]
		if !ok {
			i = len(out.Pods)
			pods[c.PodUID] = i
			out.Pods = append(out.Pods, usage.Pod{UID: types.UID(c.PodUID)})
		}
		out.Pods[i].Containers = append(out.Pods[i].Containers, usage.Container{Name: c.Name, Use: usage.Use{
			CPU: rate(c.used.CPU-was.used.CPU, over), Window: over, Memory: c.used.WorkingSet,
		}})
	}
	for _, p := range out.Pods {
		slices.SortFunc(p.Containers, func(a, b usage.Container) int { return cmp.Compare(a.Name, b.Name) })
	}
	return out
}

// rate returns the processor time per second.
func rate(used, over time.Duration) time.Duration {
	if over <= 0 {
		return 0
	}
	return max(0, time.Duration(float64(used)/over.Seconds()))
}

// named gives the pods their names and puts them in the order of these. What belongs to no pod is left out.
func (m *Meter) named(ctx context.Context, pods []usage.Pod) ([]usage.Pod, error) {
	uids := make([]types.UID, 0, len(pods))
	for _, p := range pods {
		uids = append(uids, p.UID)
	}
	keys, err := m.Keys(ctx, uids)
	if err != nil {
		return nil, err
	}
	out := pods[:0]
	for _, p := range pods {
		if key, ok := keys[p.UID]; ok {
			p.Namespace, p.Name = objects.NameOf(key)
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b usage.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}
