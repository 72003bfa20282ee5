package server

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// specFacts is what a shard has to know about a container's OCI spec.
type specFacts struct {
	Cgroup string
	// PostStop: it has hooks that only the OCI runtime's own delete runs.
	PostStop bool
	// Shared are the paths on the host from which and to which mounts spread.
	Shared []string
	// Terminal: the container gets one in the place of three streams.
	Terminal bool
	// Users is the user namespace that the container is in; nil: the host's.
	Users *users `json:",omitempty"`
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
		}
		Mounts []specs.Mount
		Hooks  *struct{ Poststop []json.RawMessage }
	}
	if err := json.Unmarshal(spec, &known); err != nil {
		return nil, specFacts{}, fmt.Errorf("spec: %w: %w", errdefs.ErrInvalidArgument, err)
	}
	if known.Linux == nil || !path.IsAbs(known.Linux.CgroupsPath) || path.Clean(known.Linux.CgroupsPath) == "/" {
		return nil, specFacts{}, fmt.Errorf("spec has no absolute cgroups path: %w", errdefs.ErrInvalidArgument)
	}
	facts := specFacts{
		Cgroup:   path.Clean(known.Linux.CgroupsPath),
		PostStop: known.Hooks != nil && len(known.Hooks.Poststop) > 0,
	}
	for _, m := range known.Mounts {
		if slices.Contains(m.Options, "rshared") {
			facts.Shared = append(facts.Shared, m.Source)
		}
	}
	changed, err := facts.mapUsers(spec, known.Linux.Namespaces, known.Linux.UIDMappings, known.Mounts, at)
	if err != nil {
		return nil, facts, err
	}
	spec = changed
	facts.Terminal = known.Process != nil && known.Process.Terminal
	if known.Root == nil || known.Root.Path != rootfsDir {
		changed, err := setField(spec, "root", "path", rootfsDir)
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
