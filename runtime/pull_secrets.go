package runtime

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// PullSecrets are the Secrets with a pod's credentials for registries. All images of a launch share them, so that what they
// contain is read once, and not for each image. Nil has none. It may be used from any goroutine.
type PullSecrets struct {
	secrets []corev1.Secret
	once    sync.Once
	read    any
	err     error
}

// NewPullSecrets returns the PullSecrets of a list, which the caller gives up.
func NewPullSecrets(secrets []corev1.Secret) *PullSecrets { return &PullSecrets{secrets: secrets} }

// Read returns what a function makes of the Secrets. It is called the first time only, and the Secrets are dropped after it.
func (p *PullSecrets) Read(read func([]corev1.Secret) (any, error)) (any, error) {
	if p == nil {
		return read(nil)
	}
	p.once.Do(func() {
		p.read, p.err = read(p.secrets)
		p.secrets = nil
	})
	return p.read, p.err
}
