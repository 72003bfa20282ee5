package pod

import (
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/duty"
)

// TestWhatIsTriedAgain: for people who ask why nothing happens.
func TestWhatIsTriedAgain(t *testing.T) {
	l := newLife(t, newPod(corev1.RestartPolicyOnFailure, "a", "b", "c"))
	l.turn()
	l.turn(l.failed("a", 0, duty.ErrImagePull, "no"), l.started("b", 0), l.started("c", 0))
	failed := l.now
	want := []Launching{{Container: "a", Failed: 1, FailedAt: failed, Next: failed.Add(10 * time.Second)}}
	if got := l.issued.Launchings(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	l.wait(10 * time.Second)
	l.want(l.turn(), "Launch a/0")
	want[0].Next = time.Time{}
	if got := l.issued.Launchings(); !reflect.DeepEqual(got, want) {
		t.Errorf("while it is tried: %+v, want %+v", got, want)
	}

	restarting := func(want ...Restarting) {
		t.Helper()
		got := Restarts(l.pod)
		for i := range got {
			if got[i].Last == nil || got[i].Last.ExitCode != 1 {
				t.Errorf("%+v", got[i])
			}
			got[i].Last = nil
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	l.turn(l.exited("b", 0, 0))
	restarting()
	l.turn(l.exited("c", 0, 1))
	restarting(Restarting{Container: "c", At: l.now, Cap: 5 * time.Minute})
	l.turn(l.started("c", 1))
	restarting()
	l.turn(l.exited("c", 1, 1))
	restarting(Restarting{Container: "c", Restarts: 1, At: l.now.Add(10 * time.Second), Cap: 5 * time.Minute})
	l.delete(0)
	restarting()
}
