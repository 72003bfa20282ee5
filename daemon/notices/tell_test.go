package notices

import (
	"testing"
	"time"

	"github.com/jobd/jobd/daemon/notify"
)

// One receiver that is told very much does not silence another.
func TestLimitsOfOneReceiver(t *testing.T) {
	now := time.Now()
	teller := NewTeller(nil, notify.Receivers{"a": {}, "b": {}})
	for range burst {
		if why := teller.full("a", "team", true, now); why != "" {
			t.Fatal(why)
		}
	}
	if teller.full("a", "team", true, now) == "" {
		t.Error("there is no limit")
	}
	for what, why := range map[string]string{
		"another receiver": teller.full("b", "team", true, now), "another namespace": teller.full("a", "other", true, now),
		"pings": teller.full("a", "team", false, now),
	} {
		if why != "" {
			t.Errorf("%s: %s", what, why)
		}
	}
}
