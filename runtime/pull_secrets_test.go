package runtime

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestPullSecretsAreReadOnce(t *testing.T) {
	broken := errors.New("broken")
	for _, want := range []error{nil, broken} {
		p, calls := NewPullSecrets(make([]corev1.Secret, 3)), 0
		for range 2 {
			got, err := p.Read(func(list []corev1.Secret) (any, error) {
				calls++
				return len(list), want
			})
			if got != 3 || !errors.Is(err, want) {
				t.Errorf("got %v, %v", got, err)
			}
		}
		if calls != 1 {
			t.Errorf("read %d times", calls)
		}
	}
	var none *PullSecrets
	if got, err := none.Read(func(list []corev1.Secret) (any, error) { return len(list), nil }); got != 0 || err != nil {
		t.Errorf("none: %v, %v", got, err)
	}
}
