package notify

import (
	"strings"
	"testing"
)

// However many runs a service misses, it is told of a start and then of the end of the same run, or of an end and the start after it.
func TestPingsReplaceOthers(t *testing.T) {
	for _, c := range []struct{ written, left string }{ // s1 is the start of run 1, e1 its end
		{"s1 e1", "s1 e1"},
		{"s1 e1 s2", "e1 s2"},
		{"s1 e1 s2 e2", "s2 e2"},
		{"s1 e1 s2 e2 s3 e3 s4", "e3 s4"},
		{"s1 s2 e1", "e1"}, // at the same time: of 2 an end comes
		{"s1 s2 e1 e2", "e2"},
		{"s1 s2 e2 e1", "e1"},
		{"e1 e2", "e2"},
	} {
		var left []string
		ping := func(word string) Ping { return Ping{Run: word[1:], Start: word[0] == 's'} }
		for word := range strings.FieldsSeq(c.written) {
			var kept []string
			for _, before := range left {
				if !ping(word).Replaces(ping(before)) {
					kept = append(kept, before)
				}
			}
			left = append(kept, word)
		}
		if got := strings.Join(left, " "); got != c.left {
			t.Errorf("%s: %s wait, want %s", c.written, got, c.left)
		}
	}
}
