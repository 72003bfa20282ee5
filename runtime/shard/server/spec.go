package server

import (
	"encoding/json"
	"fmt"
	"path"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/jobd/jobd/runtime/shard/protocol"
)

// specFacts is what a shard has to know about a container's OCI spec.
type specFacts struct {
	protocol.SpecFacts
	// Users is the user namespace that the container is in; nil: the host's.
	Users *users `json:",omitempty"`
}

var errNoCgroup = fmt.Errorf("spec has no absolute cgroups path: %w", errdefs.ErrInvalidArgument)

// check refuses a control group that is not the container's own: everything in that is killed.
func (f specFacts) check() error {
	if !path.IsAbs(f.Cgroup) || f.Cgroup != path.Clean(f.Cgroup) || f.Cgroup == "/" {
		return errNoCgroup
	}
	return nil
}

// specOf returns the config.json of the bundle of a container, and what is to be known about it.
func specOf(s protocol.Start, at places) ([]byte, specFacts, error) {
	if s.Facts == nil {
		return prepareSpec(s.Spec, at)
	}
	facts := specFacts{SpecFacts: *s.Facts}
	return s.Spec, facts, facts.check()
}

// prepareSpec makes the config.json of a bundle from a spec. It sets the root path to where Rootfs is mounted, and the
// score for the OOM killer where there is none, since the container would inherit that of the shard, which is spared.
// Mounts with mapped ids are taken from places, where the shard mounts them itself, since not every OCI runtime can.
func prepareSpec(spec []byte, at places) ([]byte, specFacts, error) {
	var known struct {
		Root    *struct{ Path string }
		Process *struct {
			OOMScoreAdj *int
			Terminal    bool
		}
		Linux *struct {
			CgroupsPath string
			Namespaces  []specs.LinuxNamespace
			UIDMappings []specs.LinuxIDMapping
			Devices     []specs.LinuxDevice
		}
		Mounts []specs.Mount
		Hooks  *struct{ Poststop []json.RawMessage }
	}
	if err := json.Unmarshal(spec, &known); err != nil {
		return nil, specFacts{}, fmt.Errorf("spec: %w: %w", errdefs.ErrInvalidArgument, err)
	}
	if known.Linux == nil {
		return nil, specFacts{}, errNoCgroup
	}
	facts := specFacts{SpecFacts: protocol.SpecFacts{
		Cgroup:   path.Clean(known.Linux.CgroupsPath),
		PostStop: known.Hooks != nil && len(known.Hooks.Poststop) > 0,
		Shared:   protocol.SharedSources(known.Mounts),
		Terminal: known.Process != nil && known.Process.Terminal,
		Binds:    protocol.BindsOf(known.Mounts),
		Nested:   protocol.IsNested(known.Mounts, known.Linux.Devices),
	}}
	if err := facts.check(); err != nil {
		return nil, facts, err
	}
	changed, err := facts.mapUsers(spec, known.Linux.Namespaces, known.Linux.UIDMappings, known.Mounts, at)
	if err != nil {
		return nil, facts, err
	}
	spec = changed
	if known.Root == nil || known.Root.Path != protocol.RootfsDir {
		changed, err := setField(spec, "root", "path", protocol.RootfsDir)
		if err != nil {
			return nil, facts, err
		}
		spec = changed
	}
	if known.Process != nil && known.Process.OOMScoreAdj == nil {
		changed, err := setField(spec, "process", "oomScoreAdj", 0)
		if err != nil {
			return nil, facts, err
		}
		spec = changed
	}
	return spec, facts, nil
}

// setField sets one field of an object in the spec and leaves all others as they are.
func setField(spec []byte, object, field string, value any) ([]byte, error) {
	outer, inner := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	err := json.Unmarshal(spec, &outer)
	if err == nil && len(outer[object]) > 0 {
		err = json.Unmarshal(outer[object], &inner)
	}
	if err == nil {
		if inner == nil { // it was null
			inner = map[string]json.RawMessage{}
		}
		if inner[field], err = json.Marshal(value); err == nil {
			outer[object], err = json.Marshal(inner)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("spec: %s: %w: %w", object, errdefs.ErrInvalidArgument, err)
	}
	return json.Marshal(outer)
}
