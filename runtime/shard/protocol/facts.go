package protocol

import (
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// RootfsDir is the path of a container's root file system in its bundle.
const RootfsDir = "rootfs"

// SpecFacts is what a shard has to know about an OCI spec. An older daemon does not send a field that is added here, so a
// shard must not take the field's zero value for a fact.
type SpecFacts struct {
	// Cgroup is absolute and the container's own.
	Cgroup string `json:"cgroup"`
	// PostStop: it has hooks that only the OCI runtime's own delete runs.
	PostStop bool `json:"postStop,omitempty"`
	// Shared are the paths on the host from which and to which mounts spread.
	Shared []string `json:"shared,omitempty"`
	// Terminal: the container gets one in the place of three streams.
	Terminal bool `json:"terminal,omitempty"`
	// Binds are what is mounted where the image decides what the path means.
	Binds []Bind `json:"binds,omitempty"`
	// Nested: by its path something is mounted in a bind mount, or a device may be in one.
	Nested bool `json:"nested,omitempty"`
}

// Bind is a file or directory of the host that is mounted in a container.
type Bind struct {
	Source      string `json:"source"`
	Destination string `json:"destination"`
}

// BindsOf returns the bind mounts of a spec, without those inside of what is mounted by itself in each container.
func BindsOf(mounts []specs.Mount) (binds []Bind) {
	for _, m := range mounts {
		if IsBind(m) && !IsOwn(m.Destination) {
			binds = append(binds, Bind{m.Source, m.Destination})
		}
	}
	return binds
}

// IsBind reports whether a mount shows what is elsewhere on the host.
func IsBind(m specs.Mount) bool {
	return slices.Contains(m.Options, "bind") || slices.Contains(m.Options, "rbind")
}

// IsOwn reports whether a path is at or below one at which something is mounted by itself in each container.
func IsOwn(place string) bool {
	first, _, _ := strings.Cut(path.Clean("/" + place)[1:], "/")
	return first == "dev" || first == "proc" || first == "sys"
}

// IsNested returns SpecFacts.Nested. What the symlinks of an image do is not known yet.
func IsNested(mounts []specs.Mount, devices []specs.LinuxDevice) bool {
	var binds []string // with a slash at their ends
	for _, m := range mounts {
		place := strings.TrimSuffix(path.Clean("/"+m.Destination), "/") + "/"
		if IsBind(m) {
			binds = append(binds, place)
		}
	}
	slices.Sort(binds)
	for i, place := range binds[min(1, len(binds)):] {
		if strings.HasPrefix(place, binds[i]) { // what is sorted between two of which one is in the other is in that too
			return true
		}
	}
	return slices.ContainsFunc(devices, func(d specs.LinuxDevice) bool {
		at := path.Clean("/" + d.Path)
		return !IsOwn(at) || slices.ContainsFunc(binds, func(place string) bool { return strings.HasPrefix(at, place) })
	})
}

// FactsOf returns what a shard has to know about a spec, so that the shard need not read it. It is nil where the shard has
// to change the spec: where its root path is not RootfsDir, it has no score for the OOM killer, or it has a user namespace.
func FactsOf(spec *specs.Spec) *SpecFacts {
	if spec.Root == nil || spec.Root.Path != RootfsDir || spec.Process == nil || spec.Process.OOMScoreAdj == nil ||
		spec.Linux == nil || slices.ContainsFunc(spec.Linux.Namespaces, isUser) {
		return nil
	}
	return &SpecFacts{
		Cgroup:   path.Clean(spec.Linux.CgroupsPath),
		PostStop: spec.Hooks != nil && len(spec.Hooks.Poststop) > 0,
		Shared:   SharedSources(spec.Mounts),
		Terminal: spec.Process.Terminal,
		Binds:    BindsOf(spec.Mounts),
		Nested:   IsNested(spec.Mounts, spec.Linux.Devices),
	}
}

func isUser(n specs.LinuxNamespace) bool { return n.Type == specs.UserNamespace }

// SharedSources returns the sources of the mounts that spread to and from the host.
func SharedSources(mounts []specs.Mount) (sources []string) {
	for _, m := range mounts {
		if slices.Contains(m.Options, "rshared") {
			sources = append(sources, m.Source)
		}
	}
	return sources
}
