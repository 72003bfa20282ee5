package control

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/tokens"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/runtime/volume"
)

// tokenRenewal has the tokens of pods that run renewed in time. Which of them have come of age is known by themselves.
type tokenRenewal struct {
	loop.Base
	noPods
	timers *loop.Timers
	files  *files
}

func newTokens(timers *loop.Timers, files *files) *tokenRenewal {
	return &tokenRenewal{timers: timers, files: files}
}

// watch sets the next time to look at a pod, if there is anything to look at.
func (t *tokenRenewal) watch(key string, p *corev1.Pod, now time.Time) {
	if life := volume.TokenLife(&p.Spec); life > 0 {
		t.timers.Set(t, key, now.Add(tokens.Patience(life)))
	}
}

func (t *tokenRenewal) podRecovered(key string, p *corev1.Pod) {
	if objects.Runs(p) && volume.TokenLife(&p.Spec) > 0 {
		t.files.refresh.Add(key)
	}
}

func (t *tokenRenewal) podBound(key string, p *corev1.Pod, now time.Time) { t.watch(key, p, now) }
func (t *tokenRenewal) podForgotten(key string)                           { t.timers.Set(t, key, time.Time{}) }

// Due looks at the tokens of a pod, and does so again as long as it runs.
func (t *tokenRenewal) Due(p *loop.Pass, key string) error {
	obj, ok, err := p.Pods.Get(key)
	if err != nil || !ok || !objects.Runs(obj) {
		return err
	}
	t.watch(key, obj, p.Now)
	t.files.refresh.Add(key)
	return nil
}
