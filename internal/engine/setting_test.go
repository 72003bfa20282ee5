package engine

import (
	"fmt"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, c := range []struct{ list, want, fails string }{
		{"", "[]", ""},
		{"docker", "[{docker /var/run/docker.sock }]", ""},
		{"podman,docker=/run/user/1000/docker.sock", "[{podman /run/podman/podman.sock } {docker /run/user/1000/docker.sock }]", ""},
		{"nerdctl", "[]", `"nerdctl" is neither docker nor podman`},
		{"docker,docker=/x", "[]", "docker is named twice"},
		{"docker=x", "[]", "is not the path of a socket"},
		{"docker=", "[]", "is not the path of a socket"},
	} {
		all, err := Parse(strings.FieldsFunc(c.list, func(r rune) bool { return r == ',' }))
		if fmt.Sprint(all) != c.want || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: %v, %v", c.list, all, err)
		}
	}
}
