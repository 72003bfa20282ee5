package loop

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/metrics"
	"github.com/jobd/jobd/store"
)

// What is only looked at is not held, and yet a pass does not look at more than it might hold: a claim may have thousands of pods.
func TestWhatIsLookedAtIsWork(t *testing.T) {
	s, err := store.Open(t.TempDir()+"/db", store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	value, err := scheme.Encode(&corev1.Pod{Status: corev1.PodStatus{Message: strings.Repeat("x", 1<<20)}})
	if err != nil {
		t.Fatal(err)
	}
	keys := []string{"pods/default/a", "pods/default/b"}
	err = s.Update(t.Context(), func(tx *store.Tx) error {
		for _, key := range keys {
			tx.Put(store.Object{Key: key, UID: key, Value: value})
		}
		p := (&Loop{Config: Config{Metrics: metrics.New(s)}}).newPass(tx, time.Now())
		looked := 0
		for ; !p.Spent() && looked < 1000; looked++ {
			for range 5 { // for each of its claims
				if _, ok, err := p.Pods.Peek(keys[looked%2]); !ok || err != nil {
					t.Fatal(ok, err)
				}
			}
		}
		if most := ByteBudget >> 20; looked < most*9/10 || looked > most {
			t.Errorf("%d pods of a megabyte were looked at", looked)
		}
		if p.Room() != ByteBudget {
			t.Error("they are held")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
