package conditions

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestBrief(t *testing.T) {
	for _, c := range []struct{ message, want string }{
		{"", ""},
		{"short", "short"},
		{strings.Repeat("x", 1024), strings.Repeat("x", 1024)},
		{strings.Repeat("x", 1025), strings.Repeat("x", 1021) + "..."},
		{strings.Repeat("ä", 1000), strings.Repeat("ä", 510) + "..."},
	} {
		if got := Brief(c.message); got != c.want || !utf8.ValidString(got) {
			t.Errorf("of %d bytes got %q", len(c.message), got)
		}
	}
}
