package daemon

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/tokens"
	"github.com/jobd/jobd/runtime/volume"
)

// watchTokens lets the tokens of a pod that has come to the node be renewed in time, if it has any, and tells whether it has.
func (r *records) watchTokens(key string, p *corev1.Pod, now time.Time) bool {
	life := volume.TokenLife(&p.Spec)
	if life == 0 {
		return false
	}
	r.due.Set(timerKey{dueTokens, key}, now.Add(tokens.Patience(life)))
	return true
}

// renewTokens looks at the tokens of a pod, and does so again as long as it runs. Which of them have come of age is known by
// themselves.
func (p *pass) renewTokens(key string) error {
	obj, ok, err := p.pods.Get(key)
	if err != nil || !ok || !runs(obj) {
		return err
	}
	p.records.watchTokens(key, obj, p.now)
	p.records.refresh.add(key)
	return nil
}
