package manifests

import (
	"fmt"
	"testing"
)

// A problem is told once until it is over, whatever comes in between.
func TestProblemsAreToldOnce(t *testing.T) {
	file := func(name, message string) trouble { return trouble{Problem: Problem{name, message}} }
	object := func(name, message string) trouble { return trouble{Problem{"f", name + ": " + message}, conf(name)} }
	type look struct {
		all  []trouble
		open []subject // of which it is not known
		want int
	}
	dir := file("", "cannot be read")
	for rule, looks := range map[string][]look{
		"the same again":            {{all: []trouble{object("a", "x")}, want: 1}, {all: []trouble{object("a", "x")}}},
		"twice at once":             {{all: []trouble{file("f", "x"), file("f", "x")}, want: 1}},
		"another":                   {{all: []trouble{object("a", "x")}, want: 1}, {all: []trouble{object("a", "y")}, want: 1}},
		"over, and back":            {{all: []trouble{object("a", "x")}, want: 1}, {}, {all: []trouble{object("a", "x")}, want: 1}},
		"a file that is over":       {{all: []trouble{file("f", "x")}, want: 1}, {}, {all: []trouble{file("f", "x")}, want: 1}},
		"two that take turns":       {{all: []trouble{object("a", "x")}, want: 1}, {all: []trouble{object("a", "y")}, want: 1}, {all: []trouble{object("a", "x")}}},
		"while it is being removed": {{all: []trouble{object("a", "x")}, want: 1}, {open: []subject{{of: conf("a")}}}, {all: []trouble{object("a", "x")}}},
		"while the directory cannot be read": {
			{all: []trouble{object("a", "x"), file("f", "y")}, want: 2}, {all: []trouble{dir}, open: []subject{{of: conf("a")}, {file: "f"}}, want: 1},
			{all: []trouble{object("a", "x"), file("f", "y")}}, {all: []trouble{dir}, want: 1},
		},
		"in another file": {
			{all: []trouble{object("a", "x")}, want: 1}, {all: []trouble{{Problem{"g", "a: x"}, conf("a")}}, want: 1},
		},
	} {
		seen := told{}
		for i, l := range looks {
			open := func(s subject) bool {
				for _, o := range l.open {
					if o == s {
						return true
					}
				}
				return false
			}
			if got := seen.news(l.all, open); len(got) != l.want {
				t.Errorf("%s: look %d: %v, want %d", rule, i+1, got, l.want)
			}
		}
	}
	seen := told{}
	for i := range 100 {
		seen.news([]trouble{object("a", fmt.Sprint(i))}, func(subject) bool { return false })
	}
	if n := len(seen[subject{of: conf("a")}]); n > maxWords {
		t.Errorf("%d messages of one object are kept", n)
	}
}
