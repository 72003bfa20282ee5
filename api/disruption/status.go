package disruption

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/jobd/jobd/api/conditions"
)

// deletionTimeout is how long a pod may take to be deleted after its eviction was allowed: then it counts again.
const deletionTimeout = 2 * time.Minute

// Pod is what a budget needs to know of a pod.
type Pod struct {
	Labels     labels.Set
	Controller string // resource and group of the object that controls it, such as "jobs.batch"; empty if none does
	Ready      bool
	Deleted    bool // it is being deleted
}

// PodOf returns what a budget needs to know of a pod.
func PodOf(p *corev1.Pod) Pod {
	out := Pod{Labels: p.Labels, Ready: ready(p), Deleted: p.DeletionTimestamp != nil}
	if c := metav1.GetControllerOfNoCopy(p); c != nil {
		plural, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(c.APIVersion, c.Kind))
		out.Controller = plural.GroupResource().String()
	}
	return out
}

// Alike reports whether two states of a pod are the same to all budgets.
func (p Pod) Alike(q Pod) bool {
	return p.Controller == q.Controller && p.Ready == q.Ready && p.Deleted == q.Deleted && maps.Equal(p.Labels, q.Labels)
}

// Pods are those that the selector of a budget chooses: they are counted as they come and go, since a budget may choose any number,
// and any number of budgets the same ones.
type Pods struct {
	// Find returns one by its name.
	Find func(name string) (Pod, bool)

	all, healthy int
	controllers  map[string]int // how many pods each controls
}

// Add counts a pod that is chosen now.
func (c *Pods) Add(p Pod) { c.count(p, 1) }

// Remove counts a pod that was added, as it was then, no more.
func (c *Pods) Remove(p Pod) { c.count(p, -1) }

func (c *Pods) count(p Pod, n int) {
	c.all += n
	if p.healthy() {
		c.healthy += n
	}
	if p.Controller == "" {
		return
	}
	if c.controllers == nil {
		c.controllers = map[string]int{}
	}
	if c.controllers[p.Controller] += n; c.controllers[p.Controller] == 0 {
		delete(c.controllers, p.Controller)
	}
}

func (p Pod) healthy() bool { return p.Ready && !p.Deleted }

// ready reports whether a pod is healthy, as budgets count.
func ready(p *corev1.Pod) bool {
	c := conditions.Find(p.Status.Conditions, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// Selector returns what selects the pods of a budget (PodDisruptionBudgetSpec.Selector): all pods of its namespace if it is
// empty, none if it is not set.
func Selector(b *policyv1.PodDisruptionBudget) labels.Selector {
	s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil { // validation keeps that out
		return labels.Nothing()
	}
	return s
}

// Status is what a budget allows (PodDisruptionBudgetStatus).
type Status struct {
	policyv1.PodDisruptionBudgetStatus
	Changed bool
	// Again is when to look again if nothing changes before; zero for never.
	Again time.Time
	// Event says what is wrong with the budget, if that is news.
	Event *Event
}

// Event is an event about a budget. Its source is "controllermanager".
type Event struct{ Type, Reason, Message string }

// StatusOf returns the status of a budget over the pods that its selector chooses.
//
// A percentage, and maxUnavailable, are of what the controllers of the pods are scaled to. Jobs have no scale, so as in a
// cluster such a budget of their pods allows no disruption and says so (reason SyncFailed); minAvailable as a number works
// with pods of any kind.
func StatusOf(b *policyv1.PodDisruptionBudget, pods *Pods, now time.Time) Status {
	s := Status{PodDisruptionBudgetStatus: *b.Status.DeepCopy()}
	expected, desired, err := wanted(&b.Spec, pods)
	if err != nil {
		s.DisruptionsAllowed = 0
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{
			Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.SyncFailedReason,
			Message: err.Error(), ObservedGeneration: s.ObservedGeneration, LastTransitionTime: metav1.NewTime(now),
		})
		if s.Changed = !equality.Semantic.DeepEqual(s.PodDisruptionBudgetStatus, b.Status); s.Changed {
			s.Event = &Event{corev1.EventTypeWarning, "CalculateExpectedPodCountFailed", "Failed to calculate the number of expected pods: " + err.Error()}
		}
		return s
	}
	s.ObservedGeneration, s.ExpectedPods, s.DesiredHealthy, s.CurrentHealthy = b.Generation, int32(expected), int32(desired), int32(pods.healthy)
	s.DisruptedPods = maps.Clone(s.DisruptedPods)
	for name, at := range s.DisruptedPods {
		p, ok := pods.Find(name)
		gone := at.Add(deletionTimeout)
		if !ok || p.Deleted || gone.Before(now) {
			delete(s.DisruptedPods, name)
			continue
		}
		if p.healthy() {
			s.CurrentHealthy--
		}
		if s.Again.IsZero() || gone.Before(s.Again) {
			s.Again = gone.Add(time.Second) // times of the API are whole seconds
		}
	}
	if len(s.DisruptedPods) == 0 {
		s.DisruptedPods = nil
	}
	s.DisruptionsAllowed = max(0, s.CurrentHealthy-s.DesiredHealthy)
	if expected <= 0 { // the first pods may be about to appear
		s.DisruptionsAllowed = 0
	}
	setAllowed(&s.PodDisruptionBudgetStatus, now)
	if s.Changed = !equality.Semantic.DeepEqual(s.PodDisruptionBudgetStatus, b.Status); s.Changed && pods.all == 0 {
		s.Event = &Event{corev1.EventTypeNormal, "NoPods", "No matching pods found"}
	}
	return s
}

// setAllowed sets the condition DisruptionAllowed.
func setAllowed(s *policyv1.PodDisruptionBudgetStatus, now time.Time) {
	c := metav1.Condition{
		Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionTrue, Reason: policyv1.SufficientPodsReason,
		ObservedGeneration: s.ObservedGeneration, LastTransitionTime: metav1.NewTime(now),
	}
	if s.DisruptionsAllowed <= 0 {
		c.Status, c.Reason = metav1.ConditionFalse, policyv1.InsufficientPodsReason
	}
	meta.SetStatusCondition(&s.Conditions, c)
}

// wanted returns how many pods there should be, and how many of them healthy.
func wanted(spec *policyv1.PodDisruptionBudgetSpec, pods *Pods) (expected, desired int, err error) {
	switch {
	case spec.MaxUnavailable != nil:
		if expected, err = scale(pods); err != nil {
			return 0, 0, err
		}
		most, err := intstr.GetScaledValueFromIntOrPercent(spec.MaxUnavailable, expected, true)
		return expected, max(0, expected-most), err
	case spec.MinAvailable == nil:
		return 0, 0, nil
	case spec.MinAvailable.Type == intstr.Int:
		return pods.all, int(spec.MinAvailable.IntVal), nil
	}
	if expected, err = scale(pods); err != nil {
		return 0, 0, err
	}
	desired, err = intstr.GetScaledValueFromIntOrPercent(spec.MinAvailable, expected, true)
	return expected, desired, err
}

// scale returns what the controllers of pods are scaled to, together. Pods that nothing controls do not count, and nothing
// here that controls pods has a scale.
func scale(pods *Pods) (int, error) {
	for _, name := range slices.Sorted(maps.Keys(pods.controllers)) {
		return 0, fmt.Errorf("%s does not implement the scale subresource", name)
	}
	return 0, nil
}
