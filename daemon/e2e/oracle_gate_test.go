package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/testdata/oracle"
)

// ready reports whether the pods that a deletion is about to end have got as far as handling its signal.
func (l *life) ready() bool {
	if !trap.MatchString(strings.Join(l.Manifest.Spec.Template.Spec.Containers[0].Command, " ")) {
		return l.pausesListen()
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

// pausesListen reports whether all pods that run and pause would end if they were told to: the stand-in for pause is a shell,
// which ignores SIGTERM as long as it has not set its trap.
func (l *life) pausesListen() bool {
	return !slices.ContainsFunc(l.pods, func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil &&
			strings.Contains(p.Spec.Containers[0].Image, "pause") && !catchesTERM(string(p.UID))
	})
}

// catchesTERM reports whether a process of a pod has a handler for SIGTERM.
func catchesTERM(podUID string) bool {
	all, _ := filepath.Glob("/proc/[0-9]*/cgroup")
	for _, path := range all {
		if groups, err := os.ReadFile(path); err != nil || !strings.Contains(string(groups), podUID) {
			continue
		}
		status, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "status"))
		_, caught, _ := strings.Cut(string(status), "\nSigCgt:\t")
		caught, _, _ = strings.Cut(caught, "\n")
		if mask, err := strconv.ParseUint(caught, 16, 64); err == nil && mask&(1<<(unix.SIGTERM-1)) != 0 {
			return true
		}
	}
	return false
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
