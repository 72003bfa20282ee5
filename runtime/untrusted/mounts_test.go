package untrusted

import (
	"reflect"
	"testing"

	"github.com/moby/sys/mountinfo"
)

func TestOutermost(t *testing.T) {
	var got []int
	for _, m := range Outermost([]*mountinfo.Info{{ID: 12, Parent: 11}, {ID: 10, Parent: 1}, {ID: 11, Parent: 10}, {ID: 20, Parent: 1}}) {
		got = append(got, m.ID)
	}
	if want := []int{10, 20}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
