package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/api/scheduling"
	"github.com/jobd/jobd/daemon/hold"
)

// need is a Job or a JobSet that is played, too, and after which another one begins.
type need struct {
	batch.Need
	of    *played
	ofSet *playedSet
}

// find looks for what is needed among what is played. A Job of a JobSet is there once that has made it.
func (s *simulation) find(namespace string, n batch.Need) *need {
	of := &need{Need: n}
	if n.Set {
		if i := slices.IndexFunc(s.sets, func(o *playedSet) bool { return o.set.Namespace == namespace && o.set.Name == n.Name }); i >= 0 {
			of.ofSet = s.sets[i]
		}
	} else if i := slices.IndexFunc(s.jobs, func(o *played) bool { return o.job.Namespace == namespace && o.job.Name == n.Name }); i >= 0 {
		of.of = s.jobs[i]
	}
	return of
}

// needs returns what is needed by a Job or a JobSet, of what is played, and in words what is not.
func (s *simulation) needs(namespace string, annotations map[string]string) (all []*need, others []string) {
	for _, n := range batch.After(annotations) {
		if of := s.find(namespace, n); of.of == nil && of.ofSet == nil && s.maker(namespace, n) == nil {
			others = append(others, n.Words())
		} else {
			all = append(all, of)
		}
	}
	return all, others
}

// maker returns the JobSet that makes a Job which is needed; nil for none.
func (s *simulation) maker(namespace string, n batch.Need) *playedSet {
	i := slices.IndexFunc(s.sets, func(o *playedSet) bool { return !n.Set && o.set.Namespace == namespace && jobset.OwnJob(o.set, n.Name) })
	if i < 0 {
		return nil
	}
	return s.sets[i]
}

// words says for what a Job or a JobSet waits.
func words(awaits []*need) string {
	var all []string
	for _, n := range awaits {
		all = append(all, n.Words())
	}
	return strings.Join(all, ", ")
}

// group is a concurrency group.
type group struct {
	name, namespace string
	play            *hold.Play
	jobs            []*played
}

// enter finds out what holds back a Job that was just created.
func (s *played) enter() {
	if batch.Awaits(s.job) {
		var others []string
		s.awaits, others = s.simulation.needs(s.job.Namespace, s.job.Annotations)
		if len(others) > 0 { // they are not played
			s.tell("Waits", nil, "waits for %s (%s); what follows is from then on", strings.Join(others, ", "), batch.AfterAnnotation)
		}
		if len(s.awaits) > 0 {
			s.waits = len(s.result.Timeline)
			s.tell("Waits", nil, "waits for %s (%s)", s.needs(), batch.AfterAnnotation)
		}
		if at, ok := batch.StartAt(s.job.Annotations); ok && at.After(s.now) {
			s.startAt = at
			s.tell("Waits", nil, "waits until %s (%s)", at.Format(time.RFC3339), batch.StartAtAnnotation)
		}
		if len(s.awaits) == 0 && s.startAt.IsZero() {
			s.resume()
		}
	}
	s.enterGroup()
}

func (s *played) needs() string { return words(s.awaits) }

// resume lets a Job begin for which all others have ended, and whose time has come.
func (s *played) resume() {
	s.awaits, s.startAt = nil, time.Time{}
	batch.Resume(s.job, s.now)
	s.changed()
}

// heldBack reports whether a Job waits for others, or for a time.
func (s *played) heldBack() bool { return len(s.awaits) > 0 || !s.startAt.IsZero() }

// changed folds the Job in after a change, and its pods if that is one to them.
func (s *played) changed() {
	paused, stands, closed := s.record.Paused(), s.record.Stands(), s.record.WindowClosed()
	s.record.SetJob(s.job, s.now)
	if s.record.Paused() != paused || s.record.Stands() != stands || s.record.WindowClosed() != closed {
		for _, p := range s.live {
			if p.of == s {
				s.touch(p)
			}
		}
	}
	s.dirty = true
	if s.set != nil {
		s.set.follow(s)
	}
}

// stillAwaits says for which Jobs a Job waits for ever.
func (s *played) stillAwaits() string {
	return fmt.Sprintf("it waits for %s (%s)", s.needs(), batch.AfterAnnotation)
}

// concurrency returns the concurrency group of a Job, by what it or its namespace says.
func (s *played) concurrency() (core.Concurrency, bool) {
	if c, ok := core.ConcurrencyOf(s.job.Annotations); ok {
		return c, true
	}
	return core.NamespaceConcurrency(s.job.Namespace, s.namespaces[s.job.Namespace])
}

// enterGroup makes a Job a member of its concurrency group. If only one is played, it has a place.
func (s *played) enterGroup() {
	c, ok := s.concurrency()
	if !ok {
		return
	}
	if !s.several() {
		without := map[string]string{
			core.QueueConcurrent: "waits", core.ReplaceConcurrent: "ends the oldest that has one", core.ForbidConcurrent: "fails at once",
		}[c.Policy]
		s.tell("Waits", nil, "needs a place in the concurrency group %s (limit %d), and %s if there is none; what follows is with a place",
			c.Group, c.Limit, without)
		return
	}
	i := slices.IndexFunc(s.groups, func(g *group) bool { return g.namespace == s.job.Namespace && g.name == c.Group })
	if i < 0 {
		i = len(s.groups)
		s.groups = append(s.groups, &group{c.Group, s.job.Namespace, hold.NewPlay(), nil})
	}
	s.group = s.groups[i]
	s.group.jobs = append(s.group.jobs, s)
	s.note()
}

// needsPlace reports whether a Job would begin now, if it had a place in its concurrency group.
func (s *played) needsPlace() bool {
	return s.group != nil && batch.Unplaced(s.job) && !s.group.play.Placed(s.job.UID)
}

// note tells the group of a Job how it now stands.
func (s *played) note() {
	if c, ok := s.concurrency(); ok && s.group.play.Note(s.job, c, s.priority) {
		s.decideOn(s.group)
	}
}

// decideOn lets a group be decided on, after those for which that is so already.
func (s *simulation) decideOn(g *group) {
	if !slices.Contains(s.undecided, g) {
		s.undecided = append(s.undecided, g)
	}
}

// settleHolds takes one decision about what holds Jobs back, and reports whether there was one.
func (s *simulation) settleHolds() bool {
	for _, j := range s.jobs {
		if !j.heldBack() || j.startAt.After(s.now) || !s.met(j.awaits, &j.job.ObjectMeta) {
			continue
		}
		if len(j.awaits) > 0 {
			j.tell("Begins", nil, "begins, since it waited for %s", j.needs())
		} else if s.several() {
			j.tell("Begins", nil, "begins, since its time has come")
		}
		j.resume()
		return true
	}
	for _, set := range s.sets {
		if len(set.awaits) == 0 || !s.met(set.awaits, &set.set.ObjectMeta) {
			continue
		}
		set.tell("Begins", "begins, since it waited for "+words(set.awaits))
		set.resume()
		return true
	}
	for _, placed := range []bool{true, false} { // places that are free come before Jobs that want one
		for _, j := range s.jobs {
			if j.group != nil && j.group.play.Placed(j.job.UID) == placed {
				j.note()
			}
		}
	}
	for len(s.undecided) > 0 {
		g := s.undecided[0]
		s.undecided = s.undecided[1:]
		move, ok := g.play.Next(s.now)
		if !ok {
			continue
		}
		s.decideOn(g)
		for _, j := range g.jobs {
			if j.job.UID == move.Job {
				j.move(move)
			}
		}
		return true
	}
	return false
}

// met reports whether all is met that a Job or a JobSet needs.
func (s *simulation) met(awaits []*need, of *metav1.ObjectMeta) bool {
	return !slices.ContainsFunc(awaits, func(n *need) bool {
		return hold.Judge(n.Need, s.outcome(of.Namespace, n), of.CreationTimestamp.Time) != hold.Met
	})
}

// outcome returns what has become of what is needed.
func (s *simulation) outcome(namespace string, n *need) hold.Outcome {
	if n.of == nil && n.ofSet == nil {
		n = s.find(namespace, n.Need)
	}
	switch {
	case n.of != nil && n.of.begun:
		return hold.OutcomeOf(n.of.job)
	case n.ofSet != nil && n.ofSet.begun:
		return hold.OutcomeOfSet(n.ofSet.set)
	}
	return hold.Outcome{}
}

// move carries out what its group has decided about a Job.
func (s *played) move(m hold.Move) {
	if m.Starts {
		s.tell("Begins", nil, "has a place in the concurrency group %s", s.group.name)
		s.dirty = true
		return
	}
	t := metav1.NewTime(s.now.Truncate(time.Second))
	s.tell("Condition", nil, "the Job is %s: %s: %s", batchv1.JobFailureTarget, m.Reason, m.Message)
	s.job.Status.Conditions = append(slices.Clone(s.job.Status.Conditions), batchv1.JobCondition{
		Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue, Reason: m.Reason, Message: m.Message, LastProbeTime: t, LastTransitionTime: t,
	})
	s.changed()
}

// prioritize sets the priority of pods with a spec.
func (s *simulation) prioritize(spec *corev1.PodSpec) error {
	return scheduling.SetPodPriority(spec, append(scheduling.Builtin(), s.PriorityClasses...))
}

// pausable reports whether pods of a Job are paused for those of a higher priority.
func (s *played) pausable() bool {
	by, own := s.job.Annotations[core.PreemptByAnnotation]
	if !own {
		by = s.namespaces[s.job.Namespace][core.PreemptByAnnotation]
	}
	return by == core.PreemptByPause
}
