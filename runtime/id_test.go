package runtime

import (
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/pkg/identifiers"
)

func TestContainerID(t *testing.T) {
	const uid = "5d1f4b6e-0c1f-4f6e-9c0a-1f2e3d4c5b6a"
	names := map[string]string{
		"a short name is kept readable":            "main",
		"a doubled separator is replaced":          "a--b",
		"a name of 63 characters is replaced":      strings.Repeat("x", 63),
		"another name of 63 characters is another": strings.Repeat("x", 62) + "y",
	}
	seen := map[string]string{}
	for rule, name := range names {
		for attempt := range 3 {
			id := ContainerID(uid, name, attempt)
			if err := identifiers.Validate(id); err != nil {
				t.Errorf("%s: containerd refuses %q: %v", rule, id, err)
			}
			if id != ContainerID(uid, name, attempt) {
				t.Errorf("%s: not the same when asked again", rule)
			}
			if other, ok := seen[id]; ok {
				t.Errorf("%s: %q is also that of %q", rule, id, other)
			}
			seen[id] = rule
		}
	}
	if got := ContainerID(uid, "main", 2); got != uid+".main.2" {
		t.Errorf("got %q", got)
	}
}
