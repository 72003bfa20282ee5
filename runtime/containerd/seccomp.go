package containerd

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sync/singleflight"
	"k8s.io/utils/lru"

	"github.com/jobd/jobd/internal/files"
	"github.com/jobd/jobd/internal/layout"
	"github.com/jobd/jobd/runtime/bpftree"
	"github.com/jobd/jobd/runtime/shard"
)

// annotationFilter hands crun a seccomp filter in the kernel's own form, in place of a profile in the spec.
const annotationFilter = "run.oci.seccomp_bpf_data"

// form is part of the name of a filter that is kept, so that filters of earlier versions of jobd are not used.
const form = "tree 2"

// mostFilters is how many filters are kept. A host has only a few profiles, but their files may be rewritten any
// number of times.
const mostFilters = 64

// mostNames is for how many profiles the hash is remembered.
const mostNames = 8

// filters holds seccomp profiles that crun has compiled. Otherwise it would compile the profile for each container,
// which takes more CPU than everything else it does for one. The result stays the same for as long as the program and
// the kernel do. It is kept as a tree, which the kernel loads faster.
type filters struct {
	dir string // STATE/seccomp: one file for each profile
	// compile compiles a profile to a filter with an OCI runtime.
	compile func(ctx context.Context, runtime ociRuntime, profile *specs.LinuxSeccomp) ([]byte, error)
	logger  *slog.Logger

	// known maps the hash of a profile to the annotation, which is "" if the profile cannot be compiled. The file of an
	// entry that is evicted is removed.
	known     *lru.Cache
	compiling singleflight.Group
	// names remembers what hashes are of, by madeFor: to encode a profile takes longer than all else here. A profile from a
	// file is another one each time, so few are remembered.
	names *lru.Cache
}

// madeFor is a profile, which nobody changes, and the OCI runtime that it is compiled by.
type madeFor struct {
	profile *specs.LinuxSeccomp
	runtime string
}

func newFilters(c Config, s *shards) (*filters, error) {
	return openFilters(&filters{
		dir:    layout.State(c.State).Seccomp(),
		logger: c.Logger,
		compile: func(ctx context.Context, runtime ociRuntime, profile *specs.LinuxSeccomp) ([]byte, error) {
			return compileFilter(ctx, c, s.at(0), runtime, profile)
		},
	})
}

// openFilters loads the filters that an earlier process has kept.
func openFilters(f *filters) (*filters, error) {
	f.names = lru.New(mostNames)
	f.known = lru.NewWithEvictionFunc(mostFilters, func(name lru.Key, _ any) {
		if err := os.Remove(f.path(name.(string))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			f.logger.Warn("cannot remove an unused seccomp filter", "error", err)
		}
	})
	files, err := os.ReadDir(f.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("kept seccomp filters: %w", err)
	}
	for _, file := range files {
		content, err := os.ReadFile(f.path(file.Name()))
		if err != nil {
			return nil, fmt.Errorf("kept seccomp filter: %w", err)
		}
		f.known.Add(file.Name(), base64.StdEncoding.EncodeToString(content))
	}
	return f, nil
}

func (f *filters) path(name string) string { return filepath.Join(f.dir, name) }

// takesFilters reports whether an OCI runtime knows annotationFilter: crun 0.18 and later. Any other would start the
// container without any filter.
func takesFilters(version string) bool {
	var major, minor int
	if _, err := fmt.Sscanf(version, "crun %d.%d", &major, &minor); err != nil {
		return false
	}
	return major > 0 || minor >= 18
}

// apply replaces a spec's profile with its filter where the OCI runtime takes one. A profile that cannot be compiled
// beforehand stays, so that each container gets the OCI runtime's own error. A profile with flags or a listener, which
// are not part of a filter, stays too.
func (f *filters) apply(ctx context.Context, runtime ociRuntime, spec *specs.Spec) error {
	if !takesFilters(runtime.Version) || spec.Linux == nil || spec.Linux.Seccomp == nil {
		return nil
	}
	profile := spec.Linux.Seccomp
	if len(profile.Flags) > 0 || profile.ListenerPath != "" {
		return nil
	}
	filter, err := f.of(ctx, runtime, profile)
	if err != nil || filter == "" {
		return err
	}
	linux := *spec.Linux
	linux.Seccomp = nil
	spec.Linux = &linux
	annotations := map[string]string{}
	maps.Copy(annotations, spec.Annotations)
	annotations[annotationFilter] = filter
	spec.Annotations = annotations
	return nil
}

func (f *filters) of(ctx context.Context, runtime ociRuntime, profile *specs.LinuxSeccomp) (string, error) {
	name, err := f.name(runtime, profile)
	if err != nil {
		return "", err
	}
	for {
		filter, err, _ := f.compiling.Do(name, func() (any, error) {
			if filter, ok := f.known.Get(name); ok {
				return filter, nil
			}
			return f.add(ctx, name, runtime, profile)
		})
		switch {
		case err == nil:
			return filter.(string), nil
		case ctx.Err() == nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
			// The caller that started to compile it has given up.
		default:
			return "", err
		}
	}
}

// name returns the hash of a profile, and of all else that its filter depends on.
func (f *filters) name(runtime ociRuntime, profile *specs.LinuxSeccomp) (string, error) {
	of := madeFor{profile, runtime.fingerprint}
	if name, ok := f.names.Get(of); ok {
		return name.(string), nil
	}
	encoded, err := json.Marshal(profile)
	if err != nil {
		return "", fmt.Errorf("encode seccomp profile: %w", err)
	}
	name := fmt.Sprintf("%x", sha256.Sum256(append([]byte(runtime.fingerprint+"\n"+form+"\n"), encoded...)))
	f.names.Add(of, name)
	return name, nil
}

// add compiles a profile and keeps the result.
func (f *filters) add(ctx context.Context, name string, runtime ociRuntime, profile *specs.LinuxSeccomp) (string, error) {
	content, err := f.compile(ctx, runtime, profile)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		f.logger.Warn("cannot compile a seccomp profile once for all containers", "error", err)
	} else if len(content) > 0 {
		if tree, err := bpftree.Rewrite(content); err != nil {
			f.logger.Warn("a seccomp filter stays as the OCI runtime has compiled it", "error", err)
		} else {
			content = tree
		}
		if err := errors.Join(os.MkdirAll(f.dir, 0o700), files.Replace(f.path(name), content, 0o600)); err != nil {
			return "", fmt.Errorf("keep seccomp filter: %w", err)
		}
	}
	filter := base64.StdEncoding.EncodeToString(content)
	f.known.Add(name, filter)
	return filter, nil
}

// compileFilter starts a probe container with a profile and returns the filter that crun keeps for later processes in
// it.
func compileFilter(
	ctx context.Context, c Config, s *shard.Shard, crun ociRuntime, profile *specs.LinuxSeccomp,
) (filter []byte, err error) {
	err = runProbe(ctx, c, s, crun, "--idle", profile, func(id, _ string) error {
		filter, err = os.ReadFile(filepath.Join(s.RuntimeState(id), "seccomp.bpf"))
		return err
	})
	return filter, err
}
