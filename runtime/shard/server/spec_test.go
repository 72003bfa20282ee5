package server

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/containerd/errdefs"
)

func TestPrepareSpec(t *testing.T) {
	for name, c := range map[string]struct {
		spec, want string
		facts      specFacts
	}{
		"a complete spec is left alone": {
			`{"root": {"path":"rootfs","readonly":true},"process":{"oomScoreAdj":5},"linux":{"cgroupsPath":"/jobd/c"}}`,
			`{"root": {"path":"rootfs","readonly":true},"process":{"oomScoreAdj":5},"linux":{"cgroupsPath":"/jobd/c"}}`, specFacts{Cgroup: "/jobd/c"},
		},
		"the root path is set, what else is there stays": {
			`{"root":{"path":"/x","readonly":true},"process":{"oomScoreAdj":0,"x":[1]},"linux":{"cgroupsPath":"/jobd/c"},"future":{"y":1}}`,
			`{"root":{"path":"rootfs","readonly":true},"process":{"oomScoreAdj":0,"x":[1]},"linux":{"cgroupsPath":"/jobd/c"},"future":{"y":1}}`, specFacts{Cgroup: "/jobd/c"},
		},
		"a missing root and score are made": {
			`{"process":{},"root":null,"linux":{"cgroupsPath":"/a/../jobd/c"}}`,
			`{"process":{"oomScoreAdj":0},"root":{"path":"rootfs"},"linux":{"cgroupsPath":"/a/../jobd/c"}}`, specFacts{Cgroup: "/jobd/c"},
		},
		"what is shared with the host is seen": {
			`{"root":{"path":"rootfs"},"mounts":[{"source":"/a","options":["rbind","rshared"]},{"source":"/b","options":["rbind","rslave"]}],"linux":{"cgroupsPath":"/c"}}`,
			`{"root":{"path":"rootfs"},"mounts":[{"source":"/a","options":["rbind","rshared"]},{"source":"/b","options":["rbind","rslave"]}],"linux":{"cgroupsPath":"/c"}}`,
			specFacts{Cgroup: "/c", Shared: []string{"/a"}},
		},
		"hooks after the stop are seen": {
			`{"root":{"path":"rootfs"},"hooks":{"poststop":[{"path":"/x"}]},"linux":{"cgroupsPath":"/c"}}`,
			`{"root":{"path":"rootfs"},"hooks":{"poststop":[{"path":"/x"}]},"linux":{"cgroupsPath":"/c"}}`, specFacts{Cgroup: "/c", PostStop: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, facts, err := prepareSpec([]byte(c.spec), placesIn(t.TempDir()))
			var a, b any
			must(t, errors.Join(err, json.Unmarshal(got, &a), json.Unmarshal([]byte(c.want), &b)))
			if !reflect.DeepEqual(a, b) || !reflect.DeepEqual(facts, c.facts) {
				t.Errorf("got %s, %+v", got, facts)
			}
		})
	}
	for name, spec := range map[string]string{
		"nothing":                     ``,
		"no cgroup":                   `{"linux":{}}`,
		"everybody's cgroup":          `{"linux":{"cgroupsPath":"/"}}`,
		"everybody's cgroup, hidden":  `{"linux":{"cgroupsPath":"/x/.."}}`,
		"a cgroup of systemd's words": `{"linux":{"cgroupsPath":"system.slice:jobd:c"}}`,
		"a process that is no object": `{"process":5,"linux":{"cgroupsPath":"/c"}}`,
	} {
		t.Run("refused: "+name, func(t *testing.T) {
			if _, _, err := prepareSpec([]byte(spec), placesIn(t.TempDir())); !errors.Is(err, errdefs.ErrInvalidArgument) {
				t.Error(err)
			}
		})
	}
}
