package picture

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/api/picture"
)

// JobOfSet is a Job that a JobSet controls.
type JobOfSet struct {
	// Attempt is in which attempt it was made, as its label has it.
	Group, Name, Attempt string
	// State is that of batch.State.
	State string
}

// symbols are how the states of Jobs look, as everywhere in the same colours.
var symbols = map[string]byte{
	batch.StateWaiting: picture.Waiting, batch.StateRunning: picture.Running, batch.StateComplete: picture.Succeeded, batch.StateCompleting: picture.Succeeded,
	batch.StateFailed: picture.Failed, batch.StateFailing: picture.Failed, batch.StateTerminating: picture.Stopped,
	batch.StateSuspended: picture.Suspended, batch.StatePaused: picture.Suspended, batch.StatePreempted: picture.Suspended,
}

// DrawSet draws a JobSet with the Jobs that it controls.
func DrawSet(js *jobsetv1.JobSet, jobs []JobOfSet, now time.Time) *picture.SetPicture {
	p := &picture.SetPicture{
		APIVersion: picture.APIVersion, Kind: picture.SetKind, At: now.UnixMilli(),
		Namespace: js.Namespace, Name: js.Name, UID: string(js.UID), Created: js.CreationTimestamp.Unix(),
		Restarts: int(js.Status.Restarts), Counted: int(js.Status.RestartsCountTowardsMax), InOrder: jobset.InOrder(js), Groups: []picture.Group{},
	}
	if policy := js.Spec.FailurePolicy; policy != nil {
		most := int(policy.MaxRestarts)
		p.MaxRestarts = &most
	}
	end := jobset.End(&js.Status)
	if end != nil {
		p.Ended = end.LastTransitionTime.Unix()
	}
	p.Decided = decided(js, end)
	drawn := map[string]*drawnGroup{}
	for i := range js.Spec.ReplicatedJobs {
		g := &js.Spec.ReplicatedJobs[i]
		drawn[g.Name] = newDrawnGroup(g)
	}
	runs, present := false, fmt.Sprint(js.Status.Restarts)
	for i := range jobs {
		j := &jobs[i]
		if j.Attempt != present {
			p.Former++
			continue
		}
		if index, ok := jobset.IndexOf(js.Name, j.Group, j.Name); ok && drawn[j.Group] != nil {
			drawn[j.Group].add(index, j.State)
		}
		runs = runs || j.State == batch.StateRunning
	}
	p.State = jobset.StateOf(js, runs)
	layers := map[string]int{}
	for i, on := range jobset.Dependencies(js) {
		g := drawn[js.Spec.ReplicatedJobs[i].Name].group(end != nil)
		for _, d := range on {
			g.Layer = max(g.Layer, layers[d.On]+1)
			g.After = append(g.After, picture.Arrow{
				Group: d.On, Status: d.What(), Has: int(d.Has), Of: int(max(0, d.Of)), Met: d.Met() || drawn[g.Name].begun,
			})
		}
		if p.InOrder {
			g.Layer = i
		}
		layers[g.Name] = g.Layer
		p.Groups = append(p.Groups, g)
	}
	for _, s := range js.Status.ReplicatedJobsStatus {
		if i := slices.IndexFunc(p.Groups, func(g picture.Group) bool { return g.Name == s.Name }); i >= 0 {
			p.Groups[i].Ready = int(s.Ready)
		}
	}
	return p
}

// drawnGroup is a group whose Jobs are being counted.
type drawnGroup struct {
	picture.Group
	jobs  []byte
	begun bool // a Job of it is there, and not suspended
}

func newDrawnGroup(g *jobsetv1.ReplicatedJob) *drawnGroup {
	n := max(0, int(g.Replicas))
	return &drawnGroup{
		Group: picture.Group{Name: g.Name, Replicas: n, Counts: map[string]int{}}, jobs: slices.Repeat([]byte{picture.Missing}, n),
	}
}

func (g *drawnGroup) add(index int, state string) {
	if index < 0 || index >= len(g.jobs) {
		return
	}
	g.jobs[index] = symbols[state]
	g.Counts[state]++
	g.begun = g.begun || state != batch.StateSuspended
}

func (g *drawnGroup) group(ended bool) picture.Group {
	g.Jobs = picture.Runs(g.jobs)
	there := 0
	for _, n := range g.Counts {
		there += n
	}
	switch {
	case g.Counts[batch.StateFailed] > 0:
		g.State = batch.StateFailed
	case g.Counts[batch.StateRunning] > 0:
		g.State = batch.StateRunning
	case there == 0 && !ended:
		g.State = batch.StateWaiting
	case there > 0:
		g.State = most(g.Counts)
		if g.State == batch.StateComplete && there < g.Replicas {
			g.State = batch.StateRunning // some are complete, and the others are still to be made
		}
	}
	return g.Group
}

// most returns the state that most Jobs have, of those that have not ended if there are any.
func most(counts map[string]int) (state string) {
	for _, word := range []string{
		batch.StateFailing, batch.StateWaiting, batch.StatePreempted, batch.StatePaused, batch.StateSuspended, batch.StateTerminating, batch.StateCompleting,
	} {
		if counts[word] > counts[state] {
			state = word
		}
	}
	return cmp.Or(state, batch.StateComplete)
}

// decided says by which policy a JobSet has ended or has begun anew, and on which Job's account.
func decided(js *jobsetv1.JobSet, end *metav1.Condition) string {
	policy := "failurePolicy: "
	if js.Spec.FailurePolicy == nil {
		policy = "no failurePolicy: "
	}
	if end == nil {
		end = meta.FindStatusCondition(js.Status.Conditions, string(jobsetv1.JobSetRestarting))
	}
	switch first := jobset.FirstFailed(&js.Status); {
	case end == nil || end.Status != metav1.ConditionTrue:
		return ""
	case end.Type == string(jobsetv1.JobSetCompleted):
		return success(js.Spec.SuccessPolicy)
	case first == "":
		return policy + end.Reason
	default:
		return policy + end.Reason + " (Job " + first + " failed)"
	}
}

// success says what was enough for success, if that was not that all Jobs are complete.
func success(policy *jobsetv1.SuccessPolicy) string {
	if policy == nil || policy.Operator != jobsetv1.OperatorAny && len(policy.TargetReplicatedJobs) == 0 {
		return ""
	}
	said := "successPolicy: all Jobs"
	if policy.Operator == jobsetv1.OperatorAny {
		said = "successPolicy: one Job"
	}
	if targets := policy.TargetReplicatedJobs; len(targets) > 0 {
		said += " of " + strings.Join(targets[:min(5, len(targets))], ", ")
		if n := len(targets) - 5; n > 0 {
			said += fmt.Sprintf(" and %d more", n)
		}
	}
	return said
}
