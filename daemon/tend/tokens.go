package control

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

// tokenRenewal refreshes the files of running pods so often that their tokens are renewed in time. One timer serves all of
// them, and what is kept of a pod is one number in its record (podRecord.renewal): very many pods have a token. Times are
// seconds since it began, from 1 on.
type tokenRenewal struct {
	loop.Base
	loop.NoPods
	timers *loop.Timers
	files  refresher
	pods   *podRecords
	began  time.Time
	next   uint32       // when the timer is due; 0 if it is not set
	now    []*podRecord // to be looked at
}

// refresher brings the files of pods up to date.
type refresher interface{ refreshLater(key string) }

func newTokenRenewal(timers *loop.Timers, files refresher, pods *podRecords) *tokenRenewal {
	return &tokenRenewal{timers: timers, files: files, pods: pods}
}

// Rebuild implements loop.Controller.
func (t *tokenRenewal) Rebuild(_ *store.Snapshot, now time.Time) error {
	t.began = now
	return nil
}

// watch sets the next time to refresh a pod, if it has a token.
func (t *tokenRenewal) watch(p *corev1.Pod, now time.Time) {
	life := volume.TokenLife(&p.Spec)
	rec := t.pods.known[p.UID]
	if life == 0 || rec == nil {
		return
	}
	rec.renewal = t.since(now.Add(tokens.Patience(life)))
	if t.next == 0 || rec.renewal < t.next {
		t.set(rec.renewal)
	}
}

// since returns a time as it is kept.
func (t *tokenRenewal) since(at time.Time) uint32 {
	return uint32(min(max(1, at.Sub(t.began)/time.Second), math.MaxUint32))
}

func (t *tokenRenewal) set(next uint32) {
	t.next = next
	t.timers.Set(t, "", t.began.Add(time.Duration(next)*time.Second))
}

func (t *tokenRenewal) PodRecovered(key string, p *corev1.Pod) {
	if objects.Runs(p) && volume.TokenLife(&p.Spec) > 0 {
		t.files.refreshLater(key)
	}
}

func (t *tokenRenewal) PodBound(_ string, p *corev1.Pod, now time.Time) { t.watch(p, now) }

// Due refreshes the pods whose time has come, and sets their next time while they run.
func (t *tokenRenewal) Due(p *loop.Pass, _ string) error {
	if len(t.now) == 0 {
		until := t.since(p.Now.Add(renewedTogether))
		for _, rec := range t.pods.known {
			if rec.renewal > 0 && rec.renewal <= until {
				t.now = append(t.now, rec)
			}
		}
		slices.SortFunc(t.now, func(a, b *podRecord) int { return strings.Compare(a.key, b.key) })
	}
	n := min(len(t.now), renewedAtOnce)
	for _, rec := range t.now[:n] {
		rec.renewal = 0
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
	for _, rec := range t.pods.known {
		if rec.renewal > 0 && (earliest == 0 || rec.renewal < earliest) {
			earliest = rec.renewal
		}
	}
	if earliest > 0 {
		t.set(earliest)
	}
	return nil
}
