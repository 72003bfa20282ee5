package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/testdata/oracle"
)

// ready reports whether the pods that a deletion is about to end have got as far as handling its signal.
func (l *life) ready() bool {
	if !trap.MatchString(strings.Join(l.Manifest.Spec.Template.Spec.Containers[0].Command, " ")) {
		return true
	}
	for n, recorded := range l.Pods.Summary {
		if p := l.pod(n); p != nil && p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil && l.deleted(recorded.Name) > 0 {
			if _, err := os.Stat(filepath.Join(l.gate(), p.Name+".traps")); err != nil {
				return false
			}
		}
	}
	return true
}

func (l *life) gate() string { return filepath.Join(l.dir, "gate") }

// open lets those pods begin whose turn it is.
func (l *life) open() {
	for n, recorded := range l.Pods.Summary {
		if p := l.pod(n); p != nil && p.Status.Phase == corev1.PodRunning && !l.opened[p.UID] && l.turn(n, recorded) {
			l.opened[p.UID] = os.WriteFile(filepath.Join(l.gate(), p.Name), nil, 0o644) == nil
		}
	}
}

const (
	// sideBySide is how far apart in time a cluster may create the pods of one decision.
	sideBySide = 0.5
	// justBefore is how far apart in time pods may end and still be seen as one change.
	justBefore = 0.01
)

func (l *life) turn(n int, recorded oracle.Pod) bool {
	end := l.ended(recorded.Name)
	failsLast := func(p, beside oracle.Pod) bool {
		return p.FinalPhase == corev1.PodFailed && beside.FinalPhase == corev1.PodSucceeded && l.deleted(p.Name) == 0
	}
	for m, other := range l.Pods.Summary {
		q := l.pod(m)
		d := other.CreatedAt - recorded.CreatedAt
		beside := -sideBySide < d && d < sideBySide
		if beside && (q == nil || q.Status.Phase == corev1.PodPending) {
			return false
		}
		// The back-off of a failure must not be over before the pods that succeed beside it have ended.
		if beside && failsLast(recorded, other) && !terminal(q) {
			return false
		}
		if l.deleted(recorded.Name) > 0 || beside && failsLast(other, recorded) {
			continue
		}
		if before := end - l.ended(other.Name); before > max(justBefore, l.Together().Seconds()) &&
			(q == nil || !terminal(q) || before > 1 && !earlierSecond(q)) {
			return false
		}
	}
	return l.deleted(recorded.Name) > 0 || l.ready() && (l.done == len(l.Pods.Actions) || l.Pods.Actions[l.done].T > end)
}

// earlierSecond reports whether a pod has ended in an earlier second than the current one. Back-off compares ends in
// whole seconds.
func earlierSecond(p *corev1.Pod) bool {
	for _, c := range p.Status.ContainerStatuses {
		if e := c.State.Terminated; e != nil && !e.FinishedAt.Time.Before(time.Now().Truncate(time.Second)) {
			return false
		}
	}
	return true
}

func terminal(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}
