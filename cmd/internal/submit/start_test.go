package submit

import (
	"testing"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/daemon/causes/causestest"
)

// TestEveryCauseWaitsOrCannotStart: for each cause that there is, the command waits, as the Job does, or says that somebody has to
// change something, and gives up if it is to.
func TestEveryCauseWaitsOrCannotStart(t *testing.T) {
	for name, c := range causestest.Cases() {
		said := c.Explain()
		// of is what is said where others can change something, and where nobody can.
		of := func(own bool) causestest.Start {
			for _, p := range c.Pods {
				if startError(p) != "" {
					return causestest.Cannot
				}
			}
			switch cause, definite := cannotStartOf(said.Causes, own); {
			case cause == nil:
				return causestest.Waits
			case !definite:
				return causestest.CannotIfItLasts
			case own && c.Start == causestest.CannotAlone:
				return causestest.CannotAlone
			}
			return causestest.Cannot
		}
		want := c.Start
		if want == causestest.CannotAlone {
			want = causestest.Waits
		}
		if got := of(false); got != want {
			t.Errorf("%s (%s): %s, want %s: %s", name, said.State, got, want, said.Message)
		}
		if got := of(true); got != c.Start {
			t.Errorf("%s (%s), where nobody else can change anything: %s, want %s: %s", name, said.State, got, c.Start, said.Message)
		}
		if c.Start != causestest.Waits && said.State != batch.StateWaiting && said.State != batch.StateSuspended && !c.SetAside {
			t.Errorf("%s: submit gives up on a Job that is %s", name, said.State)
		}
	}
}
