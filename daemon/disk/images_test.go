package disk

import (
	"slices"
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
		told   int // by how many events
	}{
		{"there is room", 0, room, 0},
		{"there is none", 5, full, 1},
		{"there is still none", 10, full, 2},
		{"it stays so", 15, full, 0},
		{"something went, but not enough", 20, some, 2},
		{"it stays so", 75, full, 0},
		{"it was said long ago", 80, full, 2},
		{"there is room again", 85, room, 0},
		{"there is none again", 90, full, 1},
	} {
		told := s.reasons(c.done, begin.Add(time.Duration(c.minute)*time.Minute), time.Hour)
		if want := []string{"FreeDiskSpaceFailed", "ImageGCFailed"}[:c.told]; !slices.Equal(told, want) {
			t.Errorf("%s: told %q", c.rule, told)
		}
	}
}

func TestAFullDiskIsToldInAKubeletsWords(t *testing.T) {
	got := tooFull(image.Collected{
		Before: image.Disk{Capacity: 10 << 30, Available: 512 << 20}, Wanted: 3 << 30, Freed: 17,
	})
	want := "Insufficient free disk space on the node's image filesystem (95% of 10.0 GiB used). " +
		"Failed to free sufficient space by deleting unused images (freed 17 bytes). " +
		"Investigate disk usage, as it could be used by active images, logs, volumes, or other data."
	if got != want {
		t.Errorf("got %s", got)
	}
}
