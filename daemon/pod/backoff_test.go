package pod

import (
	"testing"
	"time"
)

// A delay outlives the daemon only in the message that users see. Who changes its words must still read the old ones, which
// pods have that wait while jobd is upgraded.
func TestTheDelayOfARestartIsInItsMessage(t *testing.T) {
	for n := 1; n <= 7; n++ {
		message := crashLoopMessage(backoff(n), "c", "p_ns(uid)")
		if got, ok := delayOf(message); !ok || got != backoff(n) {
			t.Errorf("the delay of %q is read as %v (%t), want %v", message, got, ok, backoff(n))
		}
	}
	const stored = "back-off 2m40s restarting failed container=c pod=p_ns(uid)"
	if got := crashLoopMessage(160*time.Second, "c", "p_ns(uid)"); got != stored {
		t.Errorf("the message is %q, want %q", got, stored)
	}
	if got, ok := delayOf(stored); !ok || got != 160*time.Second {
		t.Errorf("the delay of %q is read as %v (%t)", stored, got, ok)
	}
	for _, other := range []string{"", "back-off", "back-off long restarting failed container=c pod=p", "the container waits"} {
		if got, ok := delayOf(other); ok {
			t.Errorf("the delay of %q is read as %v", other, got)
		}
	}
}
