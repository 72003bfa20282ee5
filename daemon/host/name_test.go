package host

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

func TestNodeName(t *testing.T) {
	for hostname, want := range map[string]string{
		"box":                    "box",
		"Box.Example.ORG":        "box.example.org",
		"my_laptop":              "my-laptop",
		"(none)":                 "none",
		"":                       "localhost",
		"---":                    "localhost",
		"a-.-b..c.":              "a.b.c",
		"Zoë's Rechner":          "zo-s-rechner",
		strings.Repeat("a", 70):  strings.Repeat("a", 63),
		strings.Repeat("a.", 40): strings.Repeat("a.", 31) + "a",
	} {
		got := nodeName(hostname)
		if got != want {
			t.Errorf("%q: %q, want %q", hostname, got, want)
		}
		if problems := append(validation.IsDNS1123Subdomain(got), validation.IsValidLabelValue(got)...); len(problems) > 0 {
			t.Errorf("%q: %q: %v", hostname, got, problems)
		}
	}
}
