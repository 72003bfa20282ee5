package server

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/jobd/jobd/runtime/shard/protocol"
)

func TestPrepareSpec(t *testing.T) {
	for name, c := range map[string]struct {
		spec, want string
		facts      specFacts
	}{
		"a complete spec is left alone": {
			`{"root": {"path":"rootfs","readonly":true},"process":{"oomScoreAdj":5},"linux":{"cgroupsPath":"/jobd/c"}}`,
			`{"root": {"path":"rootfs","readonly":true},"process":{"oomScoreAdj":5},"linux":{"cgroupsPath":"/jobd/c"}}`, specFacts{
				SpecFacts: protocol.SpecFacts{Cgroup: "/jobd/c"},
			},
		},
		"the root path is set, what else is there stays": {
			`{"root":{"path":"/x","readonly":true},"process":{"oomScoreAdj":0,"x":[1]},"linux":{"cgroupsPath":"/jobd/c"},"future":{"y":1}}`,
			`{"root":{"path":"rootfs","readonly":true},"process":{"oomScoreAdj":0,"x":[1]},"linux":{"cgroupsPath":"/jobd/c"},"future":{"y":1}}`, specFacts{
				SpecFacts: protocol.SpecFacts{Cgroup: "/jobd/c"},
			},
		},
		"a missing root and score are made": {
			`{"process":{},"root":null,"linux":{"cgroupsPath":"/a/../jobd/c"}}`,
			`{"process":{"oomScoreAdj":0},"root":{"path":"rootfs"},"linux":{"cgroupsPath":"/a/../jobd/c"}}`, specFacts{
				SpecFacts: protocol.SpecFacts{Cgroup: "/jobd/c"},
			},
		},
		"what is shared with the host is seen": {
			`{"root":{"path":"rootfs"},"mounts":[{"source":"/a","destination":"/x","options":["rbind","rshared"]},{"source":"/b","destination":"/dev/y","options":["rbind","rslave"]}],"linux":{"cgroupsPath":"/c"}}`,
			`{"root":{"path":"rootfs"},"mounts":[{"source":"/a","destination":"/x","options":["rbind","rshared"]},{"source":"/b","destination":"/dev/y","options":["rbind","rslave"]}],"linux":{"cgroupsPath":"/c"}}`,
			specFacts{SpecFacts: protocol.SpecFacts{Cgroup: "/c", Shared: []string{"/a"}, Binds: []protocol.Bind{{Source: "/a", Destination: "/x"}}}},
		},
		"hooks after the stop are seen": {
			`{"root":{"path":"rootfs"},"hooks":{"poststop":[{"path":"/x"}]},"linux":{"cgroupsPath":"/c"}}`,
			`{"root":{"path":"rootfs"},"hooks":{"poststop":[{"path":"/x"}]},"linux":{"cgroupsPath":"/c"}}`, specFacts{
				SpecFacts: protocol.SpecFacts{Cgroup: "/c", PostStop: true},
			},
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

// Where the daemon sends facts, they are those that the shard would find, and the shard would not change the spec.
func TestFactsThatAreSent(t *testing.T) {
	complete := func() *specs.Spec {
		return &specs.Spec{
			Root:    &specs.Root{Path: "rootfs"},
			Process: &specs.Process{OOMScoreAdj: new(int), Args: []string{"a < b"}},
			Mounts:  []specs.Mount{{Source: "/a", Options: []string{"rbind", "rslave"}}},
			Linux: &specs.Linux{
				CgroupsPath: "/jobd/../jobd/c", Namespaces: []specs.LinuxNamespace{{Type: specs.PIDNamespace}},
			},
		}
	}
	for name, c := range map[string]struct {
		change func(*specs.Spec)
		sent   bool
	}{
		"a complete spec":    {func(*specs.Spec) {}, true},
		"no process":         {func(s *specs.Spec) { s.Process = nil }, false},
		"no score":           {func(s *specs.Spec) { s.Process.OOMScoreAdj = nil }, false},
		"no root":            {func(s *specs.Spec) { s.Root = nil }, false},
		"another root":       {func(s *specs.Spec) { s.Root.Path = "/x" }, false},
		"a terminal":         {func(s *specs.Spec) { s.Process.Terminal = true }, true},
		"no hook after that": {func(s *specs.Spec) { s.Hooks = &specs.Hooks{} }, true},
		"a hook":             {func(s *specs.Spec) { s.Hooks = &specs.Hooks{Poststop: []specs.Hook{{Path: "/x"}}} }, true},
		"mounts that spread": {func(s *specs.Spec) {
			for _, source := range []string{"/b", "/c"} {
				s.Mounts = append(s.Mounts, specs.Mount{Source: source, Options: []string{"rbind", "rshared"}})
			}
		}, true},
		"a user namespace": {func(s *specs.Spec) {
			s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: specs.UserNamespace, Path: "/n"})
			s.Linux.UIDMappings = []specs.LinuxIDMapping{{HostID: 100000, Size: 65536}}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			spec := complete()
			c.change(spec)
			encoded, err := json.Marshal(spec)
			must(t, err)
			sent := protocol.FactsOf(spec)
			if (sent != nil) != c.sent {
				t.Fatalf("sent %+v", sent)
			}
			changed, found, err := prepareSpec(encoded, placesIn(t.TempDir()))
			must(t, err)
			if sent != nil && (!reflect.DeepEqual(found, specFacts{SpecFacts: *sent}) || string(changed) != string(encoded)) {
				t.Errorf("sent %+v, the shard finds %+v in %s", sent, found, changed)
			}
		})
	}
}
