package tend

import (
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/tokens"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/runtime/volume"
	"github.com/jobd/jobd/store"
)

const (
	// renewedTogether is how much earlier than necessary the tokens of a pod are looked at, together with those of others.
	renewedTogether = 10 * time.Second
	// renewedAtOnce bounds of how many pods the tokens are looked at in one pass.
	renewedAtOnce = loop.Budget
)

// TokenRenewal refreshes the files of running pods so often that their tokens are renewed in time. One timer serves all of
// them, and what is kept of a pod is one number in its record (Pods.Renewal): very many pods have a token. Times are
// seconds since it began, from 1 on.
type TokenRenewal struct {
	loop.Base
	loop.NoPods
	timers *loop.Timers
	files  *Files
	pods   Pods
	began  time.Time
	next   uint32 // when the timer is due; 0 if it is not set
	now    []due  // to be looked at
}

// due is a pod whose tokens are to be looked at.
type due struct {
	key     string
	renewal *uint32
}

// NewTokenRenewal makes the controller.
func NewTokenRenewal(timers *loop.Timers, files *Files, pods Pods) *TokenRenewal {
	return &TokenRenewal{timers: timers, files: files, pods: pods}
}

// Rebuild implements loop.Controller.
func (t *TokenRenewal) Rebuild(_ *store.Snapshot, now time.Time) error {
	t.began = now
	return nil
}

// watch sets the next time to refresh a pod, if it has a token.
func (t *TokenRenewal) watch(p *corev1.Pod, now time.Time) {
	life := volume.TokenLife(&p.Spec)
	if life == 0 {
		return
	}
	renewal := t.pods.Renewal(p.UID)
	if renewal == nil {
		return
	}
	*renewal = t.since(now.Add(tokens.Patience(life)))
	if t.next == 0 || *renewal < t.next {
		t.set(*renewal)
	}
}

// since returns a time as it is kept.
func (t *TokenRenewal) since(at time.Time) uint32 {
	return uint32(min(max(1, at.Sub(t.began)/time.Second), math.MaxUint32))
}

func (t *TokenRenewal) set(next uint32) {
	t.next = next
	t.timers.Set(t, "", t.began.Add(time.Duration(next)*time.Second))
}

// PodRecovered implements loop.PodFollower.
func (t *TokenRenewal) PodRecovered(key string, p *corev1.Pod) {
	if objects.Runs(p) && volume.TokenLife(&p.Spec) > 0 {
		t.files.refreshLater(key)
	}
}

// PodBound implements loop.PodFollower.
func (t *TokenRenewal) PodBound(_ string, p *corev1.Pod, now time.Time) { t.watch(p, now) }

// Due refreshes the pods whose time has come, and sets their next time while they run.
func (t *TokenRenewal) Due(p *loop.Pass, _ string) error {
	if len(t.now) == 0 {
		until := t.since(p.Now.Add(renewedTogether))
		for key, renewal := range t.pods.Renewals() {
			if *renewal > 0 && *renewal <= until {
				t.now = append(t.now, due{key, renewal})
			}
		}
		slices.SortFunc(t.now, func(a, b due) int { return strings.Compare(a.key, b.key) })
	}
	n := min(len(t.now), renewedAtOnce)
	for _, rec := range t.now[:n] {
		*rec.renewal = 0
		obj, ok, err := p.Pods.Peek(rec.key)
		if err != nil {
			return err
		}
		if ok && objects.Runs(obj) {
			t.watch(obj, p.Now)
			t.files.refreshLater(rec.key)
		}
	}
	if t.now = t.now[n:]; len(t.now) > 0 {
		t.set(t.since(p.Now))
		return nil
	}
	t.now, t.next = nil, 0
	earliest := uint32(0)
	for _, renewal := range t.pods.Renewals() {
		if *renewal > 0 && (earliest == 0 || *renewal < earliest) {
			earliest = *renewal
		}
	}
	if earliest > 0 {
		t.set(earliest)
	}
	return nil
}
