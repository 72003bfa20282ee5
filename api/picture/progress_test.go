package picture

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestParseProgress(t *testing.T) {
	for line, want := range map[string]struct {
		percent int
		words   string
		ok      bool
	}{
		"::progress 40 epoch 4":                             {40, "epoch 4", true},
		"::progress 0":                                      {0, "", true},
		"::progress 100\r":                                  {100, "", true},
		"::progress  99.9% nearly  there ":                  {99, "nearly  there", true},
		"::progress 50 \x1b[31mred\x1b[2J\x07 and\ttabs":    {50, "red and tabs", true},
		"::progress 1 " + strings.Repeat("ü", 100):          {1, strings.Repeat("ü", 59) + "…", true},
		"::progress 1 " + strings.Repeat("x", 1_000_000):    {1, strings.Repeat("x", 59) + "…", true},
		"::progress 101 too far":                            {},
		"::progress -1":                                     {},
		"::progress NaN":                                    {},
		"::progress":                                        {},
		"::progress forty":                                  {},
		" ::progress 40":                                    {},
		"epoch 4":                                           {},
		"::progress " + strings.Repeat("9", 1_000_000):      {},
		"::progress 40 " + string([]byte{0xff, 0xfe}) + "x": {40, "\uFFFDx", true},
	} {
		percent, words, ok := ParseProgress(line)
		if ok != want.ok || percent != want.percent || words != want.words || !utf8.ValidString(words) ||
			strings.ContainsAny(words, "\x1b\x07\t") {
			t.Errorf("%.60q: %d %q %v, want %+v", line, percent, words, ok, want)
		}
	}
}
