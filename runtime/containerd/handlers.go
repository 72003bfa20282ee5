package containerd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/errdefs"

	"github.com/jobd/jobd/runtime"
)

// wellKnown are the OCI runtimes that are handlers without being configured, where they are installed.
var wellKnown = []string{"crun", "runc"}

// Handlers returns the names of the OCI runtimes that pods can choose from, sorted.
func (r *Runtime) Handlers() []string {
	names := slices.Collect(maps.Keys(r.config.Handlers))
	for _, name := range wellKnown {
		if _, err := exec.LookPath(name); err == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// nvidiaHandler is the handler that the RuntimeClass of NVIDIA's tools names. The OCI runtime of that name does no more
// than give containers the devices of CDI files, which every pod gets here: unless it is configured, pods have the default
// runtime.
const nvidiaHandler = "nvidia"

// Handler returns a handler by its name, once its OCI runtime has run a container here. The error is
// errdefs.ErrNotFound when there is none of that name.
func (r *Runtime) Handler(ctx context.Context, name string) (runtime.Handler, error) {
	h, err := r.config.handler(name)
	if name == nvidiaHandler && errdefs.IsNotFound(err) {
		return runtime.Handler{}, nil
	}
	if err != nil {
		return h, fmt.Errorf("no runtime for %q is configured (runtime-handlers): this node has %s: %w",
			name, strings.Join(r.Handlers(), ", "), err)
	}
	o, err := r.runtimes.of(ctx, h)
	if err != nil {
		return h, fmt.Errorf("runtime for %q: %w", name, err)
	}
	h.Foreign = o.foreign()
	return h, nil
}

// handler finds a handler by its name.
func (c *Config) handler(name string) (runtime.Handler, error) {
	if h, ok := c.Handlers[name]; ok {
		h.Name = name
		return h, nil
	}
	if !slices.Contains(wellKnown, name) {
		return runtime.Handler{}, errdefs.ErrNotFound
	}
	path, err := exec.LookPath(name)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return runtime.Handler{}, errors.Join(errdefs.ErrNotFound, err)
	}
	return runtime.Handler{Name: name, Path: path}, nil
}
