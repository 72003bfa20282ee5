package volume

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/podspec"
)

// Tokens issues tokens of pods' ServiceAccounts.
type Tokens interface {
	// ForPod returns a token for an audience, empty for the API itself: the current one as long as it need not be
	// renewed.
	ForPod(pod *corev1.Pod, audience string, life time.Duration, current string) (string, error)
}

// Bounds of ServiceAccountTokenProjection.ExpirationSeconds.
const (
	shortestLife = 10 * 60
	longestLife  = 1 << 32
)

// TokenLife returns the shortest life of the tokens in a pod's volumes, 0 if there are none
// (ServiceAccountTokenProjection.ExpirationSeconds).
func TokenLife(spec *corev1.PodSpec) time.Duration {
	var shortest time.Duration
	for i := range spec.Volumes {
		if spec.Volumes[i].Projected == nil {
			continue
		}
		for _, s := range spec.Volumes[i].Projected.Sources {
			if t := s.ServiceAccountToken; t != nil && (shortest == 0 || tokenLife(t) < shortest) {
				shortest = tokenLife(t)
			}
		}
	}
	return shortest
}

func tokenLife(t *corev1.ServiceAccountTokenProjection) time.Duration {
	if t.ExpirationSeconds == nil {
		return time.Hour
	}
	// An older jobd has accepted, and stored, lives that a Duration cannot hold.
	return time.Duration(min(max(*t.ExpirationSeconds, shortestLife), longestLife)) * time.Second
}

// token adds the token that is there already, or a new one if that has to be renewed.
func (c *collector) token(t *corev1.ServiceAccountTokenProjection) error {
	if c.node.Tokens == nil {
		return fmt.Errorf("there are no tokens here: %w", errdefs.ErrNotImplemented)
	}
	path := filepath.Clean(t.Path)
	current, _ := os.ReadFile(filepath.Join(c.dir, dataLink, path)) // a missing one is treated as invalid
	token, err := c.node.Tokens.ForPod(c.pod, t.Audience, tokenLife(t), string(current))
	if err != nil {
		return err
	}
	f := file{content: []byte(token), mode: c.mode}
	// As with a kubelet: where it is clear who uses the token, nobody else may read it.
	user, clear := commonUser(&c.pod.Spec)
	if t.User != nil || c.user != nil {
		user, clear = c.owner(t.User), true
	}
	if clear {
		f.user = user
	}
	if clear || podFSGroup(c.pod) >= 0 {
		f.mode = 0o600
	}
	return c.put(path, f)
}

// commonUser returns the user that all containers run as, if the manifest names one.
func commonUser(spec *corev1.PodSpec) (user int, ok bool) {
	for c := range podspec.Containers(spec) {
		var of *int64
		if s := spec.SecurityContext; s != nil {
			of = s.RunAsUser
		}
		if s := c.SecurityContext; s != nil && s.RunAsUser != nil {
			of = s.RunAsUser
		}
		if of == nil || ok && int(*of) != user {
			return 0, false
		}
		user, ok = int(*of), true
	}
	return user, ok
}
