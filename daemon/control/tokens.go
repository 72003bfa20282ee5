package control

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/tokens"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/runtime/volume"
)

// tokenRenewal refreshes the files of running pods so often that their tokens are renewed in time.
type tokenRenewal struct {
	loop.Base
	noPods
	timers *loop.Timers
	files  *files
}

func newTokenRenewal(timers *loop.Timers, files *files) *tokenRenewal {
	return &tokenRenewal{timers: timers, files: files}
}

// watch sets the next time to refresh a pod, if it has a token.
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

// Due refreshes a pod, and sets the next time while the pod runs.
func (t *tokenRenewal) Due(p *loop.Pass, key string) error {
	obj, ok, err := p.Pods.Get(key)
	if err != nil || !ok || !objects.Runs(obj) {
		return err
	}
	t.watch(key, obj, p.Now)
	t.files.refresh.Add(key)
	return nil
}
