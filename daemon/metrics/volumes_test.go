package metrics

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	jobd "github.com/jobd/jobd/runtime"
)

// Claims whose files take long to count are left out, and those of others are shown all the same.
func TestVolumesThatTakeLongToMeasure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := map[string]int{}
		v := &volumeStats{measured: map[string]measured{}, measure: func(ctx context.Context, volume string) (jobd.VolumeUsage, error) {
			tries[volume]++
			switch volume {
			case "foreign":
				return jobd.VolumeUsage{}, errors.New("it is not jobd's")
			case "quick":
				return jobd.VolumeUsage{Used: int64(tries[volume])}, nil
			}
			<-ctx.Done()
			return jobd.VolumeUsage{}, ctx.Err()
		}}
		all := []bound{{volume: "foreign"}}
		for i := range 4 {
			all = append(all, bound{volume: fmt.Sprint("slow", i)})
		}
		all = append(all, bound{volume: "quick"})
		for round, want := range []struct {
			quick int64 // what it uses as far as it is known; 0: not at all
			took  time.Duration
		}{{0, volumesTime}, {1, 2 * volumeTime}, {1, 0}, {2, volumesTime}} {
			began := time.Now()
			known := v.know(all)
			if took := time.Since(began); took > want.took {
				t.Errorf("round %d took %v", round, took)
			}
			if got := known["quick"].usage; (got == nil) != (want.quick == 0) || got != nil && got.Used != want.quick {
				t.Errorf("round %d: %+v, want %d", round, got, want.quick)
			}
			if _, ok := known["foreign"]; ok || known["slow0"].usage != nil {
				t.Errorf("round %d: %v", round, known)
			}
			if round == 2 {
				time.Sleep(measuredFor + time.Second)
			}
		}
	})
}
