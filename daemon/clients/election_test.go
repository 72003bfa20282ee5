package clients

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// candidate stands for election until it is stopped.
type candidate struct {
	name    string
	stop    context.CancelFunc
	stopped chan struct{}
}

// leaders notes who leads, and whether there ever were two.
type leaders struct {
	mu      sync.Mutex
	leading map[string]bool
	terms   []string
	two     error
}

func (l *leaders) begin(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leading[name] = true
	l.terms = append(l.terms, name)
	if len(l.leading) > 1 {
		l.two = errors.Join(l.two, fmt.Errorf("%v lead together", l.leading))
	}
}

func (l *leaders) end(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.leading, name)
}

func (l *leaders) are(name string) func() error {
	return func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.leading[name] {
			return fmt.Errorf("leading: %v", l.leading)
		}
		return nil
	}
}

// TestLeaderElection has candidates follow each other: one that resigns at once, one that falls silent when its lease is
// over. A restart of the daemon changes nothing.
func TestLeaderElection(t *testing.T) {
	t.Parallel()
	d := start(t)
	l := &leaders{leading: map[string]bool{}}
	stand := func(name string, resigns bool) candidate {
		// Who resigns keeps the lease until then, however long a restart of the daemon takes.
		lasts := 2 * patience
		if !resigns {
			lasts = 12 * time.Second
		}
		c := clientset(t, d.network())
		ctx, stop := context.WithCancel(t.Context())
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{
				LeaseMeta:  metav1.ObjectMeta{Namespace: "kube-system", Name: "test"},
				Client:     c.CoordinationV1(),
				LockConfig: resourcelock.ResourceLockConfig{Identity: name},
			},
			LeaseDuration: lasts, RenewDeadline: lasts * 5 / 6, RetryPeriod: 100 * time.Millisecond,
			ReleaseOnCancel: resigns,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { l.begin(name) },
				OnStoppedLeading: func() { l.end(name) },
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		stopped := make(chan struct{})
		go func() { defer close(stopped); elector.Run(ctx) }()
		t.Cleanup(func() { stop(); <-stopped })
		return candidate{name, stop, stopped}
	}
	first := stand("first", true)
	eventually(t, "the first leads", l.are("first"))
	second := stand("second", false)

	d.kill()
	d.serve()
	leases := clientset(t, d.socket()).CoordinationV1().Leases("kube-system")
	before, err := leases.Get(t.Context(), "test", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the leader renews its lease after a restart", func() error {
		now, err := leases.Get(t.Context(), "test", metav1.GetOptions{})
		if err == nil && (*now.Spec.HolderIdentity != "first" || !now.Spec.RenewTime.After(before.Spec.RenewTime.Time)) {
			err = fmt.Errorf("%+v", now.Spec)
		}
		return err
	})

	first.stop()
	eventually(t, "the second follows", l.are("second"))
	third := stand("third", true)
	second.stop()
	<-second.stopped
	eventually(t, "the third takes over what has run out", l.are("third"))
	third.stop()
	<-third.stopped

	l.mu.Lock()
	defer l.mu.Unlock()
	if got := fmt.Sprint(l.terms); got != "[first second third]" || l.two != nil {
		t.Errorf("terms: %s: %v", got, l.two)
	}
	lease, err := leases.Get(t.Context(), "test", metav1.GetOptions{})
	if err != nil || *lease.Spec.LeaseTransitions < 2 {
		t.Errorf("%+v: %v", lease, err)
	}
}
