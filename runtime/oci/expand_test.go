package oci

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestExpand(t *testing.T) {
	known := map[string]string{"A": "1", "B": "$(A)", "": "empty"}
	lookup := func(name string) (string, bool) { v, ok := known[name]; return v, ok }
	delete(known, "")
	for in, want := range map[string]string{
		"":            "",
		"$(A)":        "1",
		"a$(A)b$(A)c": "a1b1c",
		"$(B)":        "$(A)", // not looked at again
		"$(C)":        "$(C)",
		"$$(A)":       "$(A)",
		"$$$(A)":      "$1",
		"$$$$(A)":     "$$(A)",
		"$A":          "$A",
		"$":           "$",
		"a$":          "a$",
		"$(":          "$(",
		"$(A":         "$(A",
		"$()":         "$()",
		"$($(A))":     "$($(A))",
		"$(A$(A)":     "$(A$(A)",
		"$ $(A)":      "$ 1",
	} {
		if got := expand(in, lookup); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// TestExpandWhatNothingCloses would take minutes, all in one loop that cannot be interrupted, if each opening searched the rest.
func TestExpandWhatNothingCloses(t *testing.T) {
	for _, unit := range []string{"$(", "$", "(", "$($", "a$("} {
		s := ")" + strings.Repeat(unit, 4<<20)
		if got := expand(s, func(string) (string, bool) { return "", false }); len(got) < len(s)/2 {
			t.Errorf("%q: %d bytes of %d", unit, len(got), len(s))
		}
	}
}

func TestExpandProperties(t *testing.T) {
	text := rapid.StringOf(rapid.SampledFrom([]rune("$()Aab \u00fc")))
	rapid.Check(t, func(t *rapid.T) {
		s, value := text.Draw(t, "text"), text.Draw(t, "value")
		nothing := func(string) (string, bool) { return "", false }
		if got := expand(strings.ReplaceAll(s, "$", "$$"), func(string) (string, bool) { return value, true }); got != s {
			t.Fatalf("what is escaped came out as %q", got)
		}
		if !strings.Contains(s, "$$") && expand(s, nothing) != s {
			t.Fatalf("without variables it came out as %q", expand(s, nothing))
		}
		plain := strings.ReplaceAll(s, "$", "")
		if got := expand(plain+"$(NAME)"+plain, func(name string) (string, bool) { return value, name == "NAME" }); got != plain+value+plain {
			t.Fatalf("got %q", got)
		}
	})
}
