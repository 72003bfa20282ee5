package simulated

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"

	"github.com/jobd/jobd/runtime"
)

// Exec refuses: there is nothing to run a process in.
func (r *Runtime) Exec(_ context.Context, id string, _ runtime.ExecRequest) (int, error) {
	return 0, fmt.Errorf("exec in container %s: simulated containers run no processes: %w", id,
		errdefs.ErrNotImplemented)
}

// Attach refuses for the same reason.
func (r *Runtime) Attach(_ context.Context, id string, _ runtime.AttachRequest) error {
	return fmt.Errorf("attach to container %s: simulated containers run no processes: %w", id,
		errdefs.ErrNotImplemented)
}
