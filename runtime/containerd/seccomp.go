package containerd

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/jobd/jobd/runtime/shard"
)

// annotationFilter hands crun a seccomp filter in the kernel's own form. It takes the place of a profile in the spec.
const annotationFilter = "run.oci.seccomp_bpf_data"

// filters holds seccomp profiles that crun has compiled. It would compile the profile of each container anew, which takes
// more CPU than all else it does for one. What it has made of a profile once stays the same for as long as the program
// and the kernel do.
type filters struct {
	dir string // STATE/seccomp: one file for each profile
	// compile has the OCI runtime make a filter of a profile.
	compile func(ctx context.Context, profile *specs.LinuxSeccomp) ([]byte, error)
	version string // of all that a filter depends on beside its profile
	logger  *slog.Logger

	mu   sync.Mutex
	have map[string]string // by the hash of a profile: the annotation, "" where there is none to be had
}

// newFilters gives nil where the OCI runtime takes no filters.
func newFilters(c Config, s *shards, runtime ociRuntime) (*filters, error) {
	if !takesFilters(runtime.Version) {
		return nil, nil
	}
	version, err := fingerprint(runtime.Path)
	if err != nil {
		return nil, err
	}
	return &filters{
		dir:     filepath.Join(c.State, "seccomp"),
		version: version,
		logger:  c.Logger,
		compile: func(ctx context.Context, profile *specs.LinuxSeccomp) ([]byte, error) {
			return compileFilter(ctx, c, s.at(0), runtime.Path, profile)
		},
		have: map[string]string{},
	}, nil
}

// takesFilters tells whether an OCI runtime knows annotationFilter: crun 0.18 and later. Another one would start the
// container without any filter.
func takesFilters(version string) bool {
	var major, minor int
	if _, err := fmt.Sscanf(version, "crun %d.%d", &major, &minor); err != nil {
		return false
	}
	return major > 0 || minor >= 18
}

// apply puts the filter of a spec's profile in its place. A profile that cannot be compiled beforehand stays, so that
// each container gets the OCI runtime's own words on it; and so does one with flags or a listener, which are no part of a
// filter.
func (f *filters) apply(ctx context.Context, spec *specs.Spec) error {
	if f == nil || spec.Linux == nil || spec.Linux.Seccomp == nil {
		return nil
	}
	profile := spec.Linux.Seccomp
	if len(profile.Flags) > 0 || profile.ListenerPath != "" {
		return nil
	}
	filter, err := f.of(ctx, profile)
	if err != nil || filter == "" {
		return err
	}
	linux := *spec.Linux
	linux.Seccomp = nil
	spec.Linux = &linux
	spec.Annotations = maps.Clone(spec.Annotations)
	spec.Annotations[annotationFilter] = filter
	return nil
}

func (f *filters) of(ctx context.Context, profile *specs.LinuxSeccomp) (string, error) {
	encoded, err := json.Marshal(profile)
	if err != nil {
		return "", fmt.Errorf("encode seccomp profile: %w", err)
	}
	name := fmt.Sprintf("%x", sha256.Sum256(append([]byte(f.version+"\n"), encoded...)))
	f.mu.Lock()
	defer f.mu.Unlock()
	if filter, ok := f.have[name]; ok {
		return filter, nil
	}
	path := filepath.Join(f.dir, name)
	content, err := os.ReadFile(path)
	if err != nil {
		if content, err = f.compile(ctx, profile); ctx.Err() != nil {
			return "", ctx.Err()
		}
		if err != nil {
			f.logger.Warn("a seccomp profile is compiled anew for each container", "error", err)
		} else if len(content) > 0 {
			if err := errors.Join(os.MkdirAll(f.dir, 0o700), os.WriteFile(path+"~new", content, 0o600), os.Rename(path+"~new", path)); err != nil {
				return "", fmt.Errorf("keep seccomp filter: %w", err)
			}
		}
	}
	f.have[name] = base64.StdEncoding.EncodeToString(content)
	return f.have[name], nil
}

// compileFilter starts a container with a profile and takes what crun keeps of it for processes that follow.
func compileFilter(ctx context.Context, c Config, s *shard.Shard, crun string, profile *specs.LinuxSeccomp) (filter []byte, err error) {
	err = runTrial(ctx, c, s, crun, "--idle", profile, func(id, _ string) error {
		filter, err = os.ReadFile(filepath.Join(s.RuntimeState(id), "seccomp.bpf"))
		return err
	})
	return filter, err
}
