// Package load adds up what pods take of a machine together: how many they are, amounts of resources, ports of the host, and by which
// rules of affinity and spread they are counted or keep others away.
//
// It knows no machine, and no pod but by what it takes. Package node keeps such sums of the pods on it and of those for which room is
// kept, and asks what fits beside them.
package load

import "github.com/jobd/jobd/daemon/requests"

// One is what one pod takes. It is not changed.
type One struct {
	Ask   requests.Resources
	Ports []requests.Port
	// Matches are the rules that count it (relation.Rule), and Holds those by which it keeps others away.
	Matches, Holds []int
	// Continues says that it is on the machine already, and counted as another pod: it waits for its CPU only.
	Continues bool
}

// Sum is what a number of pods take together. The zero value is that of none.
type Sum struct {
	Pods int
	// Continuing are those of them that are counted as others already (One.Continues).
	Continuing int
	Amounts    requests.Resources
	Ports      requests.Ports
	// Matches are the pods that each rule counts, leaving those of them that are ending, and Holds the pods that keep others away by it.
	Matches, leaving, Holds map[int]int
}

func add(to *map[int]int, rule, times int) {
	if *to == nil {
		*to = map[int]int{}
	}
	if (*to)[rule] += times; (*to)[rule] == 0 {
		delete(*to, rule)
	}
}

// Add adds so many pods that take the same.
func (s *Sum) Add(p One, times int) {
	s.Pods += times
	if p.Continues {
		s.Continuing += times
	}
	s.AddAmounts(p.Ask, times)
	for _, id := range p.Matches {
		add(&s.Matches, id, times)
	}
	for _, id := range p.Holds {
		add(&s.Holds, id, times)
	}
	s.Ports.Add(p.Ports, times)
}

// AddAmounts adds amounts alone.
func (s *Sum) AddAmounts(amounts requests.Resources, times int) {
	if s.Amounts == nil {
		s.Amounts = requests.Resources{}
	}
	s.Amounts.Add(amounts, int64(times))
}

// Merge adds what others take.
func (s *Sum) Merge(other *Sum) {
	s.Pods += other.Pods
	s.Continuing += other.Continuing
	s.AddAmounts(other.Amounts, 1)
	for _, c := range []struct{ to, from *map[int]int }{
		{&s.Matches, &other.Matches}, {&s.leaving, &other.leaving}, {&s.Holds, &other.Holds},
	} {
		for id, times := range *c.from {
			add(c.to, id, times)
		}
	}
	s.Ports.Merge(other.Ports)
}

// Full reports whether no more pods are taken by a machine that takes so many.
func (s *Sum) Full(maxPods int) bool { return s.Pods-s.Continuing >= maxPods }

// Stay returns how many pods a rule counts that are not ending.
func (s *Sum) Stay(rule int) int { return s.Matches[rule] - s.leaving[rule] }

// Levels are the sums of the pods of each priority, and of all. NewLevels makes them.
type Levels struct {
	All Sum
	By  map[int32]*Level
}

// Level is the sum of the pods of one priority.
type Level struct {
	Sum
	Ending  int // of them
	Pausing int // of them: they give their CPU away before long
}

// NewLevels returns the sums of no pods.
func NewLevels() Levels { return Levels{By: map[int32]*Level{}} }

// Add adds so many pods of a priority that take the same.
func (l *Levels) Add(priority int32, p One, times int) {
	l.All.Add(p, times)
	level := l.By[priority]
	if level == nil {
		level = &Level{}
		l.By[priority] = level
	}
	if level.Add(p, times); level.Pods == 0 {
		delete(l.By, priority)
	}
}

// AddAmounts adds amounts that pods of a priority take more, or less.
func (l *Levels) AddAmounts(priority int32, amounts requests.Resources, times int) {
	l.All.AddAmounts(amounts, times)
	l.By[priority].AddAmounts(amounts, times)
}

// End notes that a pod of a priority is ending, or that it is not.
func (l *Levels) End(priority int32, p One, ending bool) {
	times := 1
	if !ending {
		times = -1
	}
	level := l.By[priority]
	level.Ending += times
	for _, id := range p.Matches {
		add(&l.All.leaving, id, times)
		add(&level.leaving, id, times)
	}
}

// From returns what pods of at least a priority take.
func (l *Levels) From(priority int32) Sum {
	sum := Sum{}
	for p, level := range l.By {
		if p >= priority {
			sum.Merge(&level.Sum)
		}
	}
	return sum
}

// Below returns the number of pods of a lower priority, and of those among them that are ending, or being paused for others.
func (l *Levels) Below(priority int32) (pods, ending int) {
	for p, level := range l.By {
		if p < priority {
			pods += level.Pods
			ending += level.Ending + level.Pausing
		}
	}
	return pods, ending
}
