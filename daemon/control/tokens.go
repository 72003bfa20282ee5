package control

import (
	"slices"
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
// them: very many pods have a token.
type tokenRenewal struct {
	loop.Base
	noPods
	timers *loop.Timers
	files  *files
	began  time.Time
	next   time.Duration            // when the timer is due, since began; 0 if it is not set
	due    map[string]time.Duration // when to look at a pod, since began, by its key
	now    []string                 // to be looked at
}

func newTokenRenewal(timers *loop.Timers, files *files) *tokenRenewal {
	return &tokenRenewal{timers: timers, files: files, due: map[string]time.Duration{}}
}

// Rebuild implements loop.Controller.
func (t *tokenRenewal) Rebuild(_ *store.Snapshot, now time.Time) error {
	t.began = now
	return nil
}

// watch sets the next time to refresh a pod, if it has a token.
func (t *tokenRenewal) watch(key string, p *corev1.Pod, now time.Time) {
	life := volume.TokenLife(&p.Spec)
	if life == 0 {
		return
	}
	due := now.Add(tokens.Patience(life)).Sub(t.began)
	t.due[key] = due
	if t.next == 0 || due < t.next {
		t.set(due)
	}
}

func (t *tokenRenewal) set(next time.Duration) {
	t.next = next
	t.timers.Set(t, "", t.began.Add(next))
}

func (t *tokenRenewal) podRecovered(key string, p *corev1.Pod) {
	if objects.Runs(p) && volume.TokenLife(&p.Spec) > 0 {
		t.files.refresh.Add(key)
	}
}

func (t *tokenRenewal) podBound(key string, p *corev1.Pod, now time.Time) { t.watch(key, p, now) }
func (t *tokenRenewal) podForgotten(key string)                           { delete(t.due, key) }

// Due refreshes the pods whose time has come, and sets their next time while they run.
func (t *tokenRenewal) Due(p *loop.Pass, _ string) error {
	if len(t.now) == 0 {
		until := p.Now.Sub(t.began) + renewedTogether
		for key, due := range t.due {
			if due <= until {
				t.now = append(t.now, key)
			}
		}
		slices.Sort(t.now)
	}
	n := min(len(t.now), renewedAtOnce)
	for _, key := range t.now[:n] {
		delete(t.due, key)
		obj, ok, err := p.Pods.Get(key)
		if err != nil {
			return err
		}
		if ok && objects.Runs(obj) {
			t.watch(key, obj, p.Now)
			t.files.refresh.Add(key)
		}
	}
	t.now = t.now[n:]
	switch {
	case len(t.now) > 0:
		t.set(p.Now.Sub(t.began))
	case len(t.due) == 0:
		t.now, t.next = nil, 0
	default:
		t.now, t.next = nil, 0
		earliest := time.Duration(0)
		for _, due := range t.due {
			if earliest == 0 || due < earliest {
				earliest = due
			}
		}
		t.set(earliest)
	}
	return nil
}
