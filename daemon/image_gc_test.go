package daemon

import (
	"testing"
	"time"

	"github.com/jobd/jobd/runtime/image"
)

// A disk that is full of what is no image is said to be so once in a while, not at each look.
func TestShortageIsToldRarely(t *testing.T) {
	var s shortage
	begin := time.Now()
	room, full := image.Collected{}, image.Collected{Wanted: 10}
	some := image.Collected{Wanted: 10, Freed: 5, Removed: []string{"a"}}
	for _, c := range []struct {
		rule   string
		minute int
		done   image.Collected
		told   bool
	}{
		{"there is room", 0, room, false},
		{"there is none", 5, full, true},
		{"there is still none", 10, full, false},
		{"something went, but not enough", 15, some, true},
		{"there is still none", 70, full, false},
		{"it was said long ago", 75, full, true},
		{"there is room again", 80, room, false},
		{"there is none again", 85, full, true},
	} {
		if told := s.worthTelling(c.done, begin.Add(time.Duration(c.minute)*time.Minute), time.Hour); told != c.told {
			t.Errorf("%s: told %t", c.rule, told)
		}
	}
}
