package kubelet

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/requests"
)

func TestThoseOfTheLowestClassThatHaveEnoughAreChosen(t *testing.T) {
	pod := func(uid types.UID, class Class, cpu int64) Victim {
		return Victim{UID: uid, Class: class, Has: requests.Resources{"cpu": cpu}}
	}
	guaranteed, burstable, best := Class(0), Class(1), Class(2)
	for _, c := range []struct {
		may  []Victim
		cpu  int64
		want string
		left int64
	}{
		{[]Victim{pod("g", guaranteed, 2), pod("b", burstable, 2)}, 2, "b", 0},
		{[]Victim{pod("g", guaranteed, 2), pod("b", burstable, 1)}, 2, "g", 0}, // which then is enough by itself
		{[]Victim{pod("g", guaranteed, 1), pod("b", burstable, 1)}, 2, "g b", 0},
		{[]Victim{pod("x", burstable, 1), pod("y", burstable, 3)}, 2, "y", 0}, // one instead of two
		{[]Victim{pod("x", burstable, 3), pod("y", burstable, 3)}, 2, "x", 0}, // by their names
		{[]Victim{pod("e", best, 0), pod("x", burstable, 2)}, 3, "", 1},
	} {
		chosen, left := Choose(c.may, []Need{{"cpu", c.cpu}})
		var got []string
		for _, v := range chosen {
			got = append(got, string(v.UID))
		}
		if strings.Join(got, " ") != c.want || c.left == 0 != (len(left) == 0) || c.left > 0 && left[0] != (Need{"cpu", c.left}) {
			t.Errorf("for %d of %v: %v, left %v", c.cpu, c.may, got, left)
		}
	}
}
